"""What anybody can see of a page without knowing it: is it wide, is it named, can it be read?

Owns the checks that hold for every view at every size. Each returns what is wrong, in words.
"""

from __future__ import annotations

__all__ = ["FIND_CROWDED", "FIND_FAINT", "FIND_NAMELESS", "FIND_RUN", "FIND_WIDE"]

FIND_WIDE = """
(() => {
  const wide = [];
  const edge = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > edge) wide.push('the page');
  for (const each of document.querySelectorAll('main *, header *, dialog *')) {
    const box = each.getBoundingClientRect();
    if (!box.width || box.right <= edge + 1) continue;
    let place = each.parentElement, reachable = false;
    for (; place && place !== document.body; place = place.parentElement) {
      const { overflowX } = getComputedStyle(place);
      if (place.id !== 'main' && overflowX !== 'visible') { reachable = true; break; }
    }
    const hidden = each.closest('.visually-hidden, .skip, svg');
    if (!reachable && !hidden) wide.push(`${each.tagName}.${each.className}: ${box.right}`);
  }
  return wide;
})()
"""
"""What reaches beyond the right edge and cannot be scrolled to."""

FIND_CROWDED = """
(() => {
  const wrong = [];
  const name = each => `${each.tagName.toLowerCase()}.${each.className}`;
  const said = each => each.textContent.trim().slice(0, 40);
  const flows = each => {
    const { display, position, float } = getComputedStyle(each);
    return float === 'none' && !/^(inline|contents|none)$/.test(display)
      && /static|relative/.test(position);
  };
  for (const each of document.querySelectorAll('main *, header *, dialog *')) {
    if (each.closest('svg, .visually-hidden, .skip') || !each.getClientRects().length) continue;
    const { overflowX } = getComputedStyle(each);
    if (flows(each) && overflowX === 'visible' && each.scrollWidth > each.clientWidth + 1
        && each.childElementCount < 9 && !each.querySelector('svg, pre'))
      wrong.push(`${name(each)} is too narrow for “${said(each)}”`);
    const next = each.nextElementSibling;
    if (!next || !flows(each) || !flows(next) || !next.getClientRects().length) continue;
    const [a, b] = [each.getBoundingClientRect(), next.getBoundingClientRect()];
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const tall = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 2 && tall > 2) wrong.push(`${name(each)} lies over ${name(next)} “${said(next)}”`);
  }
  return wrong;
})()
"""
"""Text that runs out of its box into what stands beside it, and boxes that lie over one another."""

FIND_NAMELESS = """
(() => {
  const wrong = [];
  const name = each =>
    each.getAttribute('aria-label') || each.textContent.trim() || each.title || each.alt
    || (each.labels && each.labels[0] && each.labels[0].textContent.trim());
  const acting = 'a[href], button, input, select, textarea, summary, img, [role=button], '
    + '[role=link], [role=slider], [role=img], [role=region], [role=feed], [tabindex="0"]';
  for (const each of document.querySelectorAll(acting))
    if (!name(each)) wrong.push(each.outerHTML.slice(0, 120));
  const ids = [...document.querySelectorAll('[id]')].map(each => each.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push(`twice: ${id}`);
  if (document.querySelectorAll('main h1').length > 1) wrong.push('two first headings');
  for (const each of document.querySelectorAll('[tabindex]'))
    if (each.tabIndex > 0) wrong.push(`an order of its own: ${each.outerHTML.slice(0, 80)}`);
  return wrong;
})()
"""
"""What can be used but says nothing to somebody who does not see it."""

FIND_FAINT = """
(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const bytes = colour => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => top.slice(0, 3).map((c, n) => c * top[3] + below[n] * (1 - top[3]));
  const light = rgb => {
    const [r, g, b] = rgb.map(c => c / 255)
      .map(c => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = each => {
    const layers = [];
    for (let place = each; place; place = place.parentElement) {
      const colour = bytes(getComputedStyle(place).backgroundColor);
      if (colour[3]) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const faint = {};
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const each = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !each.getClientRects().length) continue;
    if (each.closest('svg, noscript, script, .visually-hidden, :disabled')) continue;
    if (each.closest('.fill-bar, .kind-letter, [data-visible=false]')) continue;
    const style = getComputedStyle(each);
    const below = ground(each);
    const above = over(bytes(style.color), below);
    const [high, low] = [light(above), light(below)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) {
      const name = `${each.tagName.toLowerCase()}.${each.className}`;
      faint[name] = `${name}: ${ratio.toFixed(2)} “${walker.currentNode.data.trim().slice(0, 30)}”`;
    }
  }
  return Object.values(faint);
})()
"""
"""Text with less contrast than 4.5 to 1; what is drawn over colours has a letter and an outline."""

FIND_RUN = """
(() => {
  const found = [];
  if (window.pwned !== undefined) found.push('something ran');
  const ours = each => each.closest('#data') || each.src || each.closest('body > script');
  for (const each of document.querySelectorAll('script, iframe, object, embed, base, form[action]'))
    if (!ours(each)) found.push(each.outerHTML.slice(0, 100));
  for (const each of document.querySelectorAll('*'))
    for (const { name } of each.attributes)
      if (name.startsWith('on') || name === 'srcdoc') found.push(`${each.tagName} ${name}`);
  const leads = (each, name, allowed) => {
    if (!allowed.test(each.getAttribute(name))) found.push(each.outerHTML.slice(0, 100));
  };
  for (const each of document.querySelectorAll('a[href]')) leads(each, 'href', /^(#|\\/api\\/)/);
  for (const each of document.querySelectorAll('img')) leads(each, 'src', /^\\/api\\/threads\\//);
  return found;
})()
"""
"""What would run, or lead away: nothing that others wrote may do either."""
