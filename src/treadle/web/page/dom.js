/**
 * Elements. Owns how the page is built. Invariant: text becomes text nodes, never markup, and
 * styles are set through the object model, since the policy of the page allows nothing else.
 *
 * @typedef {Node | string | number | null | undefined | false} Child
 * @typedef {Record<string, any>} Attributes  `on` holds listeners, `style` CSS properties.
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Return an HTML element.
 *
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes | null} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  dress(made, attributes);
  made.append(...nodes(children));
  return made;
}

/**
 * Return an SVG element.
 *
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes | null} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function svg(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  dress(made, attributes);
  made.append(...nodes(children));
  return made;
}

/**
 * Put other children in the place of those that are there.
 *
 * @param {Element} parent
 * @param {...(Child | Child[])} children
 */
export function fill(parent, ...children) {
  parent.replaceChildren(...nodes(children));
}

/**
 * @param {(Child | Child[])[]} children
 * @returns {(Node | string)[]}
 */
function nodes(children) {
  const found = [];
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    found.push(typeof child === "number" ? String(child) : child);
  }
  return found;
}

/**
 * @param {Element} made
 * @param {Attributes | null | undefined} attributes
 */
function dress(made, attributes) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, heard] of Object.entries(value)) made.addEventListener(event, heard);
    } else if (name === "style") {
      const style = /** @type {HTMLElement} */ (made).style;
      for (const [key, set] of Object.entries(value)) style.setProperty(key, String(set));
    } else {
      made.setAttribute(name, value === true ? "" : String(value));
    }
  }
}

/**
 * Return the element with this id, which the page has.
 *
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found;
}

/**
 * Tell readers of the screen something without moving the focus.
 *
 * @param {string} words
 */
export function announce(words) {
  byId("live").textContent = words;
}
