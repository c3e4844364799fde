"""The reactor, slowly: one recipe, plain floats, the midpoint rule with very many steps."""

from math import exp

STEPS = 4_000


def rates(state, recipe, volume, fed, inflow):
    jacket, _, _, catalyst, flow, _ = recipe
    a, b, p, _, t = state
    warmth = (1 / 320 - 1 / t) / 8.314e-3
    first = catalyst * 3.0 * exp(50 * warmth) * a * b / volume
    second = catalyst * 0.05 * exp(85 * warmth) * p * b / volume
    gained = 90 * first + 80 * second
    lost = 1.75 * volume * flow**0.6 * (t - jacket) + 3.5 * inflow * (t - 300)
    return (
        -first,
        fed - first - second,
        first - second,
        second,
        (gained - lost) / (3.5 * volume),
    )


def make_batch(recipe):
    """Production, peak temperature and purity."""
    jacket, rate, ratio, _, _, hold = recipe
    feed = 2.5 * ratio / rate
    state, peak = (2.5, 0.0, 0.0, 0.0, jacket), jacket
    for is_fed, lasts in ((True, feed), (False, hold)):
        h = lasts / STEPS
        for step in range(STEPS):
            fed, inflow = (rate, 0.3 / feed) if is_fed else (0.0, 0.0)
            here = 1 + 0.3 * step / STEPS if is_fed else 1.3
            between = 1 + 0.3 * (step + 0.5) / STEPS if is_fed else 1.3
            slope = rates(state, recipe, here, fed, inflow)
            half = tuple(s + h / 2 * d for s, d in zip(state, slope, strict=True))
            slope = rates(half, recipe, between, fed, inflow)
            state = tuple(s + h * d for s, d in zip(state, slope, strict=True))
            peak = max(peak, state[4])
    a, _, p, w, _ = state
    return 120 * p / (feed + hold + 1), peak, 100 * p / (a + p + w)
