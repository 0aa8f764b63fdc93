"""The soak: Treadle under chaos for as long as you like, and an auditor behind it.

    python -m soak --minutes 10 --seed 7 --json results.json --page docs/reliability.md

A conductor starts workers that run many threads through the public API, a provider that
misbehaves, and breaks things by a plan that the seed fixes; see `docs/reliability.md`.
"""
