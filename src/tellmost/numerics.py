"""Every tolerance and every size limit, by name, with its reason."""

TIE_TOLERANCE = 1e-9
"""Gains within this relative distance of the best are ties and go to the lowest index.
Float64 gains computed in another order differ by about 1e-12, so no such order changes a pick."""

TIE_FLOOR = 1e-13
"""Gains that differ by less than this share of the first gain are ties too: down there a gain is
rounding, and rounding must not choose."""

RANK_TOLERANCE = 1e-10
"""Eigenvalues below this share of the largest count as zero, in pseudo-inverses and in floors.
Part of the definition of ITL about f_A when the targets' covariance is singular."""

PROVEN = 2.0
"""Multiple of RANK_TOLERANCE above which a Cholesky factor proves eigenvalues to lie: its rounding
is a few 1e-13 of the largest for thousands of rows."""

ZERO_VARIANCE = 1e-14
"""A variance below this share of its prior value is rounding: correlations with it are 0."""

SAME_POINT = 1e-12
"""A squared distance below this share of both prior variances is rounding, and so is what a
similarity lacks to 1: the points are the same. Sums of thousands of products round by 1e-14."""

UNINFORMATIVE = 1e-9
"""A floor below this share of the uncertainty is zero: the candidates span the targets."""

SOBOL_POINTS = 1_024
"""Points that stand for a box: in two dimensions three hundredths of a side apart, close enough
for the refinement to enter the best basin of gains of usual lengthscales."""

REFINED_STARTS = 16
"""Points of a box from which the gain is climbed: the basins of that many best candidates."""

CALIBRATION_ERROR = 0.05
"""Probability at which a right prior may be called wrong, at any time of a run."""

SMALLEST_REMAINING = 1e-15
"""The least share of a variance that one observation can leave. Exact arithmetic leaves
noise / (variance + noise) > 0; rounding may leave a negative share, whose logarithm is NaN."""

LEADERS = 64
"""How many of the best rows are scored afresh from the posterior before one is chosen."""

LEADER_BAND = 1e-5
"""Rows whose running gain is within this relative distance of the best are leaders."""

DRIFT_TOLERANCE = 1e-7
"""Relative distance between running and fresh gains of the leaders above which the running values
are rebuilt. A hundredth of LEADER_BAND, so the true best stays among the leaders."""

BLOCK_BYTES = 6 * 2**20
"""Size of a float64 block of rows: in the caches of a CPU, yet large enough to hide the calls.
A quarter of it makes a pass over 768 features twice as slow, four times as much about as slow."""

GPU_BLOCK_BYTES = 512 * 2**20
"""The same on a GPU, where nothing is gained by staying small."""

LEAST_BLOCK_ROWS = 16
"""Rows of a block at least, however small the budget or wide the rows."""

RECENT_BYTES = 2**20
"""Rows kept of what was read last, where reading a row again may cost a pass: 256 rows of 1,024
float32 features, the leaders of a few picks and most of the next shortlist."""

FORECAST_REACH = 96.0
"""How far a forecast of the next picks holds: of T columns made ahead, about T / (1 + T / reach)
are used before a pick comes that was not foreseen. From 7 to 9 passes per 100 picks at T = 16."""

MOST_COLUMNS_AHEAD = 64
"""More columns ahead than this are never made: the forecast seldom holds so long."""

MOST_DRAFTED = 64
"""Products per row and round on a GPU: as many accumulators as a tile has registers for."""

CHUNK_BYTES = 4 * 2**20
"""Size of a block of rows x targets values: bounds the temporaries made of it, in the caches."""

FLOOR_EXACT_ROWS = 2_000
"""Up to so many candidates the floor is exact for every kernel; the work grows with the cube."""

PROBE_C = 100.0
"""Inverse penalty of a probe, on features of mean squared length one: the noise benchmark's."""

PROBES = 16
"""So many evenly spaced rows, and as many targets, tell a kernel by its values there."""

SAME_VALUES = 1e-9
"""Sums of values within this share of the largest value are the same: another device or another
number of threads rounds them differently, and no such difference changes a pick."""

DEFAULT_NOISE_RATIO = 1.0
"""Noise variance over mean prior variance, unless the caller says; see docs/noise.md."""

STOP_SHARE = 0.1
"""A stop is suggested where the picks after it gain, on average, less than this share of what the
average pick of the selection does: a tenth of the worth for the same price."""

FITTED_LENGTHSCALES = (1e-3, 1e3)
"""Where lengthscales are looked for, in ranges of the inputs along their dimension: below, points
tell nothing of each other; above, the function does not change along it."""

FITTED_VARIANCES = (1e-6, 1e6)
"""Where variances are looked for, in mean squared distances of y from the mean. For the noise the
lower end keeps covariances positive definite, so that no jitter is needed."""

ENUMERATED = 20_000
"""Sets that are tried one by one where theory asks for an exact maximum or minimum: a second."""
