"""When a claim about the Gaussian-process experiments gets which verdict."""

from tellmost.numerics import ALIKE
from tellmost_reproduction.verdicts import FAILS, HOLDS, IN_PART

RULE = (
    f"*{HOLDS}*: all that the claim says is so, and what it says about entropy is so for the "
    f"entropy of f on A, which the paper shows and which depends on the rank tolerance, and for "
    f"that of y on A, which does not. *{IN_PART}*: some of it is so, or all of it with one of the "
    f"two entropies. *{FAILS}*: none of it is so. Methods *perform alike* if their mean curves "
    f"differ by at most {100 * ALIKE:.0f}% in either entropy and in mean standard deviation; that "
    f"{IN_PART} where they do with the squared CTL of the authors' code in CTL's place, and else "
    f"it {FAILS}."
)
"""When a claim gets which verdict."""
