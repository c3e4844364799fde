"""Every tolerance and every size limit, by name, with its reason."""

from torch import Tensor

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

PROVEN_ROWS = 1_000
"""Rows of which it is proven, at most, that no small rank describes them: 10 ms, where making
features in vain takes 100."""

WELL_CONDITIONED = 1e6
"""Ratio of eigenvalues up to which Cholesky factors stand in for singular values: far above
RANK_TOLERANCE, so both see the full rank, and they agree to about 1e-15 of this ratio."""

ZERO_VARIANCE = 1e-14
"""A variance below this share of its prior value is rounding: correlations with it are 0."""

SAME_POINT = 1e-12
"""A squared distance below this share of both prior variances is rounding, and so is what a
similarity lacks to 1: the points are the same. Sums of thousands of products round by 1e-14."""

THRESHOLD_REACHED = 1e-6
"""A standard deviation within this share of a threshold has reached it: TruVar's gains are what
lies above, and so close to it that is rounding, as for rows of length one and a threshold of 1."""

UNINFORMATIVE = 1e-9
"""A floor below this share of the uncertainty is zero: the candidates span the targets."""

DETERMINED = 1e-9
"""A variance below this share of what it was before the targets were seen is settled by them."""

SAMPLED_VARIANCE = 1e-12
"""Share of a prior variance that drawn functions may lack: a deviation of 1e-6, and well above the
rounding of a Cholesky factor of thousands of rows."""

SAMPLED_ROWS = 10_000
"""Rows at which functions are drawn jointly, at most: their covariance takes 0.8 GB."""

GOOSE_EPSILON = 1e-3
"""Width of an interval, in prior standard deviations, below which GoOSE takes it for a point: the
accuracy of the paper's experiments."""

SOBOL_POINTS = 1_024
"""Points that stand for a box: in two dimensions three hundredths of a side apart, close enough
for the refinement to enter the best basin of gains of usual lengthscales."""

REFINED_STARTS = 16
"""Points of a box from which the gain is climbed: the basins of that many best candidates."""

NOISE_STEP = 1e-5
"""Half the distance, in sides of a box, over which the slope of the caller's noise is taken: near
the cube root of float64's precision, where rounding and curvature err alike."""

CONFIDENCE_BETA = 2.0
"""Standard deviations of a bound where targets do not say: 95% of a normal distribution, at each
point by itself."""

DEFAULT_CONFIDENCE = 0.99
"""Probability, under the model, that a query satisfies all constraints, unless the caller says."""

VIOLATION_Z = 3.0
"""A measured value beyond a limit by so many standard deviations of its noise is a violation: a
value right at the limit is measured as one in 1.3 of 1,000 cases."""

SKETCH_TOLERANCE = 1e-6
"""Share of the largest prior variance that a sketch may leave out, where sums over targets are
made of it; a deviation of a thousandth of the prior's."""

SKETCH_NOISE = 1e-4
"""And the same as a share of the noise variance: what is left out acts as noise that is not there,
and it must be small beside the noise that is."""

SKETCH_BAND = 1e-3
"""Rows whose sketched gain is within this share of the best are scored again without a sketch, so
that its error chooses neither between them nor between ties."""

SEEING_TOLERANCE = 1e-12
"""The same where f is seen at the targets: below RANK_TOLERANCE, which decides what is seen."""

SKETCH_SHARE = 0.25
"""A sketch of more features than this share of the points costs more than it saves."""

SAME_ROW = 1e-9
"""Share of the domain's extent within which a point is taken for a row of it: rounding of numbers
that were written down with all their digits."""

SAFE_BISECTIONS = 20
"""Halvings of the way back from a point that is not safe: to a millionth of its length."""

MOST_REPEATS = 1_000_000
"""Repeats of a measurement that are counted when nothing is safe: more is as good as never."""

STEP_ROUNDING = 1e-9
"""Share by which a step may exceed the longest allowed: ten steps of 0.1 are to cover a unit."""

CALIBRATION_ERROR = 0.05
"""Probability at which a right prior may be called wrong, at any time of a run."""

CALIBRATION_LEVELS = (0.5, 0.8, 0.95, 0.99)
"""Intervals whose coverage is counted: the middle of the distribution and its tails."""

EMPTY_INTERVAL = 1e-9
"""Prior standard deviations by which a lower bound may exceed an upper one: rounding."""

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

DRIFT_MARGIN = 10.0
"""How far above the drift that a rebuild leaves the next one has to be."""

BLOCK_BYTES = 6 * 2**20
"""Size of a float64 block of rows: in the caches of a CPU, yet large enough to hide the calls.
A quarter of it makes a pass over 768 features twice as slow, four times as much about as slow."""

GPU_BLOCK_BYTES = 512 * 2**20
"""The same on a GPU, where nothing is gained by staying small."""

HELD_SHARE = 0.5
"""A pool that takes at most this share of the memory budget is read into memory once."""

BLOCK_SHARE = 32
"""A block takes at most this part of the memory budget: small budgets have small blocks."""

BLOCKS = 6
"""Blocks that exist at the same time: two that are read in turn, one as float64, and up to three
that a kernel or a checksum makes of it."""

LEAST_BLOCK_ROWS = 16
"""Rows of a block at least, however small the budget or wide the rows."""

ROW_BYTES = 112
"""Memory per row of the pool, beside columns: up to fourteen float64 values, of which five are
kept between picks (prior variance, running values, scores, row numbers) and the others are gains,
masks and temporaries of a rule."""

RECENT_BYTES = 2**20
"""Rows kept of what was read last, where reading a row again may cost a pass: 256 rows of 1,024
float32 features, the leaders of a few picks and most of the next shortlist."""

PARQUET_BUFFER_BYTES = 2**20
"""Read at once of a column in a .parquet file; without, all of a row group's column is."""

PARQUET_BATCH_BYTES = 2**18
"""Decoded at once, in float64: pyarrow takes several times as much while it decodes, and gives it
back late. A batch of 12 times the size is no faster and takes three times the memory."""

SMALL_POOL_BYTES = 4 * 2**20
"""A pool up to this size in float64 stays in the caches and is converted once; larger ones are
converted block by block in every pass, which costs less than reading twice the bytes."""

BALANCE = {"cpu": 4.0, "cuda": 32.0}
"""How many products with a vector cost as much arithmetic as reading the rows once costs time."""

STREAMED_BALANCE = 40.0
"""The same for rows that come from a file: 30 GFLOP/s of two CPU cores against a disk that is
assumed to give 1.5 GB/s."""

FORECAST_REACH = 96.0
"""How far a forecast of the next picks holds: of T columns made ahead, about T / (1 + T / reach)
are used before a pick comes that was not foreseen. From 7 to 9 passes per 100 picks at T = 16."""

MOST_COLUMNS_AHEAD = 64
"""More columns ahead than this are never made: the forecast seldom holds so long."""

REMEMBERED = 1_024
"""So many of the best rows are kept during a pass over rows that cannot be had singly."""

DRAFTED_FROM = 2_048
"""Rows of a shortlist on a GPU, at most: the picks of a round are drafted from these."""

DRAFTED_BYTES = 8 * 2**20
"""Size of a shortlist's features in float64: more features, fewer rows, as their joint covariances
cost rows x features^2."""

MOST_DRAFTED = 64
"""Products per row and round on a GPU: as many accumulators as a tile has registers for."""

SHORTLIST = 512
"""The forecast looks at so many of the best rows, at most."""

CHUNK_BYTES = 4 * 2**20
"""Size of a block of rows x targets values: bounds the temporaries made of it, in the caches."""

KEEP_BYTES = 4 * 2**30
"""Rows x targets covariances up to this size are kept and updated; larger ones are recomputed."""

KEPT_TARGETS = 24
"""Features per target from which keeping rows x targets covariances costs CTL less than a pass for
every pick: 768 features and 30 targets take the same time either way."""

FLOOR_EXACT_ROWS = 2_000
"""Up to so many candidates the floor is exact for every kernel; the work grows with the cube."""

FLOOR_RANK = 1_000
"""Size of the pivoted-Cholesky subset that bounds the floor for larger pools."""

EFFECTIVE_RANK_ROWS = 256
"""Evenly spaced candidates from which the effective rank of a pool is estimated."""

NEAR_DUPLICATE = 0.99
"""Rows whose cosine reaches this are near-duplicates: an angle of 8 degrees, at which a second
observation is almost a repetition of the first. Copies of a text in other case or punctuation lie
above; different sentences about one thing lie below for the usual embeddings."""

HEALTH_WORK = {"cpu": 1e11, "cuda": 1e13}
"""Floating-point operations that each part of an examination of a pool may take: a few seconds.
Up to it near-duplicates and directions come from all rows, beyond from as many as it allows."""

COSINE_WORK = 128
"""Operations of a product that take as long as writing a cosine and reading it again."""

LEAST_EXAMINED = 256
"""Rows that are compared with all others at least, however large the pool: a share of them has a
standard error of 3 points at most."""

CONFIRMED_SINGLY = 4_096
"""Duplicates, found by 128 bits of their rows, that are read again where each is read on its own:
more would take longer than the examination."""

NORMS_DIFFER = 2.0
"""A longest row of so many times the shortest is worth a remark: it has four times the prior
variance, so it counts as four times as telling."""

SHARED_DIRECTION = 0.5
"""Rows that have more than this share of their variance along their mean are not centred: whatever
is observed, most of what it tells is the same."""

MANY_NEAR_DUPLICATES = 0.05
"""A share of near-duplicates above this is worth a remark."""

FEW_DIRECTIONS = 5.0
"""An effective rank below this is worth a remark where there are ten times as many features."""

PROBE_C = 100.0
"""Inverse penalty of a probe, on features of mean squared length one: the noise benchmark's."""

PROBE_STEPS = 1_000
"""Steps of L-BFGS at most: probes on embeddings are there after 20 to 200."""

PROBE_GRADIENT = 3e-7
"""The largest entry of a gradient, per training row, at which a probe is done: its probabilities
are then within 1e-4 of the best, and accuracies on Banking77 within a thousandth."""

LEAST_NOISE_RATIO, LARGEST_NOISE_RATIO = 1e-6, 1e6
"""Where the noise is looked for by marginal likelihood: below and above nothing changes any more,
in float64 or for any number of rows that a dense fit can take."""

NOISE_GRID = 4
"""Points per decade at which the marginal likelihood is looked at before it is refined."""

NOISE_PRECISION = 1e-4
"""Relative width at which the refinement ends; the data fix the ratio to a few percent at best."""

T_95 = (
    *(12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157),
    *(2.228139, 2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922),
    *(2.093024, 2.085963, 2.079614, 2.073873, 2.068658, 2.063899, 2.059539, 2.055529, 2.051831),
    *(2.048407, 2.045230, 2.042272),
)
"""How many standard errors make a difference, two-sided at 95%, from Student's t with 1 to 30
degrees of freedom."""

Z_95 = 1.959964
"""The same of the normal distribution."""

PROBE_SAMPLE = 4_096
"""Random pool rows from which a probe takes the mean and the scale of its features."""

CHECKED_ROWS = 5_000
"""Random rows whose labels are looked at, at most: probes on more take minutes, and the standard
error of a share is below one point."""

LEARNED_SHARE = 4
"""Predicted variances are compared with errors after so many rows as a quarter of the features:
as selections do. After many more rows they are all small, and noise makes the errors."""

LEAST_LEARNED = 16
"""And after so many rows at least."""

WEAK_PROBE = 0.2
"""A probe that closes less than this share of the gap from trivial to perfect answers is weak."""

TRIAL_BYTES = 64 * 2**20
"""Rows of a trial, in their own dtype: more than the caches hold, so that they are read as in a
long run, and over in about a second."""

TRIAL_SECONDS = 0.5
"""A trial on a quarter of these rows that takes a quarter of this is repeated on all of them."""

TRIAL_MARGIN = 1.5
"""Factor by which a machine's speed may differ from that of the trial, either way: other work, a
file that is no longer in memory, caches."""

BUDGET_TOLERANCE = 1e-12
"""Share of a budget that rounding may add: ten costs of 0.07 are to fit into 0.7."""

FINGERPRINT_COLUMNS = 16
"""Columns of a precomputed matrix that identify it, beside its diagonal."""

PROBES = 16
"""So many evenly spaced rows, and as many targets, tell a kernel by its values there."""

SAME_VALUES = 1e-9
"""Sums of values within this share of the largest value are the same: another device or another
number of threads rounds them differently, and no such difference changes a pick."""

RECALL_TOLERANCE = 1e-6
"""Targets whose variances differ by more than this share of the largest are other targets; far
above what two orders of the same arithmetic can differ by."""

CHECKED_MATRIX = 1_000
"""Precomputed matrices up to this size are checked for negative eigenvalues; larger ones are taken
on trust, as the check costs the cube of the size."""

MATRIX_ROUNDING = 10.0
"""How far below 0 a least eigenvalue may be, in size x precision x largest eigenvalue."""

DEFAULT_NOISE_RATIO = 1.0
"""Noise variance over mean prior variance, unless the caller says; see docs/noise.md."""

STOP_SHARE = 0.1
"""A stop is suggested where the picks after it gain, on average, less than this share of what the
average pick of the selection does: a tenth of the worth for the same price."""

RETRACE_BYTES = 64 * 2**20
"""Size of a block of picks x targets values when a selection is retraced; three exist at once."""

REFINING_STEPS = 100
"""Steps of a climb within a box at most: smooth gains are there after 5 to 30, in 20 dimensions
after 60."""

FIRST_STEP = 0.01
"""The first step of a climb, as a share of each side of the box: below the spacing of hundreds of
candidates in two dimensions or more, so that a climb stays on its hill. It grows where it proves
too short."""

FULL_STEP = 0.9
"""A step of this share of the longest that was allowed, or more, was held back by it: if it was
taken, the next may be twice as long."""

SUFFICIENT_RISE = 1e-4
"""The least share of the rise that the slope promises for a step to be taken."""

SHORTENING = 0.25
"""A step that was not taken is tried again at this share of its length."""

LENGTHENING = 4.0
"""Where the gain bends upwards there is no summit to aim at: the next step is so much longer."""

LEAST_BEND = 1e-8
"""A bend below this share of slope change x length is rounding, and says nothing."""

REFINED = 1e-12
"""A climb ends where the next step would raise the gain by less than this share: rounding."""


LEAST_FITTED = 4
"""Observations from which hyper-parameters are fitted at least: three points in one dimension lie
on many curves of any lengthscale, so fewer only repeat the starting values."""

FITTED_LENGTHSCALES = (1e-3, 1e3)
"""Where lengthscales are looked for, in ranges of the inputs along their dimension: below, points
tell nothing of each other; above, the function does not change along it."""

FITTED_VARIANCES = (1e-6, 1e6)
"""Where variances are looked for, in mean squared distances of y from the mean. For the noise the
lower end keeps covariances positive definite, so that no jitter is needed."""

START_LENGTHSCALES = (0.1, 0.5)
"""Lengthscales from which a fit starts, in ranges of the inputs: a wavy and a smooth function."""

START_NOISE = (0.01, 0.3)
"""Shares of the noise in the variance of y from which a fit starts: clean and noisy data have an
optimum each, and the better is taken."""

FIT_STEPS = 500
"""Steps of L-BFGS at most: fits of a few lengthscales are there after 20 to 60."""

FIT_GRADIENT = 1e-6
"""The largest entry of the gradient by the logarithms of hyper-parameters, per observation, at
which a fit is done: the data fix a hyper-parameter to a few percent at best."""

FIT_UNFINISHED = 1e-3
"""The same where a fit that could not go on is worth a warning."""

TRANSLATED = 1e-6
"""Share of the largest variance by which a kernel of ours and the model's that it stands for may
differ: gpytorch takes distances from inner products, which leaves seven digits of some."""

ENUMERATED = 20_000
"""Sets that are tried one by one where theory asks for an exact maximum or minimum: a second."""

REDUCED_AT_ONCE = 2**20
"""Numbers in a block of covariances of many small sets: 8 MB, and few calls."""

REDUCTION_ROUNDING = 1e-13
"""A reduction of uncertainty below this is rounding, in nats or in prior variances, at unit signal
to noise; information is a logarithm of signal to noise, so its rounding grows with that."""

BOUNDARY_PICKS = 1_000
"""Observations that an approximate Markov boundary may take unless the caller says."""

PRINTED_VALUES = 8
"""Values of a hyper-parameter that are printed; of more, such as a network's weights, the number.
"""

ALIKE = 0.05
"""Methods whose mean curves differ by less than this share perform alike: a twentieth cannot be
seen in a figure of the paper's size."""

REPRODUCED = 1e-3
"""Share by which a number of an experiment may differ from the expected one. With other products
of matrices two picks changed places and numbers moved by 3e-9; a pick that goes elsewhere among
nearly equal ones moves them by more, another rule by far more."""

AGREEING_ERRORS = 3.0
"""Standard errors by which a mean over seeds may differ from the expected one where what is picked
depends on what came out: one pick that rounding moves changes all that follow it."""

AGREEING_TRAININGS = 4.0
"""Standard errors within which a mean over the seeds of a network experiment is the expected one:
chance alone puts few of a hundred means so far off. Two runs on GPUs are not bit-equal, and
training amplifies the difference."""

LEAST_ERROR = 1e-3
"""Of an accuracy, where a standard error is smaller because the seeds happened to agree: a test
image of a thousand."""

GRADIENT_SETTLED = 1e-4
"""Norm of the cost's gradient at which iLQR takes its last step. Chosen because the first control
then has all published digits; a longer search lowers the cost by 2e-9, moves it by 1e-3."""

OUTER_ROUNDING = 1e-16
"""Singular values below this share of the largest are rounding, where variances of pairs of
directions are written as a sum of products."""

OUTER_ERROR = 1e-10
"""Share of a variance by which such a sum may miss it, for every pair; if it misses one by more,
as where variances span twelve powers of ten, they are taken as they are."""

GRADIENT_BYTES = 256 * 2**20
"""Size of the gradients of a few inputs and outputs that exist at once: 10 million parameters in
float32 six times, and small beside a network's activations on a GPU."""

PROJECTION_BYTES = 64 * 2**20
"""Size of a block of a random projection; making it takes twice as much for its bits. One block is
kept from batch to batch, others are made again."""

LEAST_PRECISION = 1e-12
"""Least prior precision that is looked for, as a share of the largest that can be best, the number
of weights over their squared length: below it the prior is flat beside any data."""

PRECISION_STEPS = 60
"""Halvings of the range of prior precisions, of 28 powers of e: to rounding."""

FULL_LAPLACE = 5_000
"""Weights of a last layer up to which their full covariance is made: 0.2 GB, half a minute."""

KMEANS_STEPS = 50
"""Lloyd's steps at most: a thousand points settled after 1 to 25, sooner the more clusters they
had, and what changes last is the cluster of a few points between two."""


def nonnegative(variance: Tensor) -> Tensor:
    """Cut a variance at zero, in place.

    A posterior variance is a difference of equal-sized numbers, so rounding can leave it
    a few 1e-16 of the prior variance below zero, never more.
    """
    return variance.clamp_(min=0.0)
