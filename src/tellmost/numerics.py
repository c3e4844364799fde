"""Tolerances and size limits that several rooms share, each with its reason."""

TIE_TOLERANCE = 1e-9
"""Gains within this relative distance of the best are ties and go to the lowest index.
Float64 gains computed in another order differ by about 1e-12, so no such order changes a pick."""

TIE_FLOOR = 1e-13
"""Gains that differ by less than this share of the first gain are ties too: down there a gain is
rounding, and rounding must not choose."""

RANK_TOLERANCE = 1e-10
"""Eigenvalues below this share of the largest count as zero, in pseudo-inverses and in floors.
This is part of the definition of ITL about f_A when the targets' covariance is singular."""

ZERO_VARIANCE = 1e-14
"""A variance below this share of its prior value is rounding: correlations with it are 0."""

SAME_POINT = 1e-12
"""A squared distance below this share of both prior variances is rounding, and so is what a
similarity lacks to 1: the points are the same. Sums of thousands of products round by 1e-14."""

UNINFORMATIVE = 1e-9
"""A floor below this share of the uncertainty is zero: the candidates span the targets."""

SOBOL_POINTS = 1_024
"""So many points stand for a box. In two dimensions they lie three hundredths of a side apart:
close enough for the refinement to enter the best basin of gains of usual lengthscales."""

REFINED_STARTS = 16
"""The gain is climbed from so many points of a box, which lie in the basins of the best
candidates."""

CALIBRATION_ERROR = 0.05
"""The probability with which a right prior may be called wrong, at any time of a run."""

SMALLEST_REMAINING = 1e-15
"""The least share of a variance that one observation can leave. Exact arithmetic leaves
noise / (variance + noise) > 0; rounding may leave a negative share, whose logarithm is NaN."""

LEADER_BAND = 1e-5
"""Rows whose running gain is within this relative distance of the best are leaders."""

BLOCK_BYTES = 3 * 2**20
"""The size of a float64 block of rows: it fits into a core's share of the caches, yet hides the
calls. Half of it and twice as much are as fast within a tenth; with a sixth a pass over 768
features takes half as long again."""

GPU_BLOCK_BYTES = 512 * 2**20
"""The size of such a block on a GPU, where a small block gains nothing."""

LEAST_BLOCK_ROWS = 16
"""A block has at least so many rows, however small the budget or wide the rows."""

RECENT_BYTES = 2**20
"""So much of what was read last is kept, where reading a row again may cost a pass: 256 rows of
1,024 float32 features, which are the leaders of a few picks and most of the next shortlist."""

FORECAST_REACH = 96.0
"""The reach of a forecast of the next picks, before any was made: of T columns made ahead, about
T / (1 + T / reach) are used before a pick comes that was not foreseen. Measured: 7 to 9 passes per
100 picks at T = 16. Later the reach is that of the forecasts so far."""

MOST_COLUMNS_AHEAD = 64
"""No more columns than this are made ahead, because the forecast seldom holds so long."""

MOST_DRAFTED = 64
"""The most products per row and round on a GPU: a tile has registers for so many accumulators."""

CHUNK_BYTES = 4 * 2**20
"""The size of a block of rows x targets values: it keeps the temporaries made of it in the
caches."""

FLOOR_EXACT_ROWS = 2_000
"""Up to so many candidates the floor is exact for every kernel; the work grows with the cube."""

PROBES = 16
"""The values of a kernel at so many evenly spaced rows and targets tell it from another kernel."""

SAME_VALUES = 1e-9
"""Sums of values within this share of the largest value are the same. Another device or another
number of threads rounds them differently, and no such difference changes a pick."""

DEFAULT_NOISE_RATIO = 1.0
"""The noise variance over the mean prior variance, if the caller says nothing; see
docs/noise.md."""
