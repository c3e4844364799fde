"""The commands. What they need is imported when they run, so that help comes at once."""

from pathlib import Path

from tellmost.cli.ending import DONE, FAILED, NOTHING_LEFT, UsageError
from tellmost.cli.options import (
    COLUMNS,
    ESSENTIALS,
    FILES,
    OUTPUT,
    PICKS,
    REQUIRED,
    RUNNING,
    Option,
    OptionValues,
    command,
)


@command(
    *("pool", "targets", "k"),
    Option("output", Path, ESSENTIALS, flags=("--output", "-o")).says(
        "Where the picks go: .csv, .jsonl, .parquet, or .tellmost (everything about the "
        "selection). Default: csv on stdout."
    ),
    Option("report", Path, ESSENTIALS).says(
        "Also write a page about the selection, one .html file."
    ),
    Option("records", bool, OUTPUT, default=True, flags=("--records/--no-records",)).says(
        "Write what the pool's own record of each pick says, but for its vector."
    ),
    Option("export", str, OUTPUT, "TOOL").says(
        "Write the picks for a labelling tool: label-studio or argilla."
    ),
    *("title", "purpose", "image_column"),
    *("json", "rule", "budget", "max_per_group", "dedupe", "min_gain", "min_gain_share"),
    *("replace", "conditional", "kernel", "noise_ratio", "noise_std", "normalize", "floor"),
    *("targets_are", "observed", "exclude", "candidates", "avoid", "avoid_cosine", *COLUMNS),
    "target_weights",
    *("cost", "cost_column", "groups", "group_column"),
    *("device", "memory", "columns_ahead", "checkpoint", "progress"),
    *("cluster", "workers", "cpus_per_worker"),
)
def select(given: OptionValues) -> int:
    """Pick the rows of POOL that tell most about the targets.

    The picks come with what each was worth, the uncertainty that remains after it, and the target
    it is nearest to; the first ten of a hundred are the selection for ten.

        tellmost select pool.npy --targets val.npy -k 1000 -o picks.csv --report report.html

        tellmost select data.parquet --targets tgt.parquet --vector-column emb
            --cost-column n_tokens --budget 2e6 -o picks.parquet

        tellmost select train.jsonl --targets prompts.jsonl --text-field text
            --embed all-minilm -k 500 -o picked.jsonl

        tellmost select pool.npy --targets val.npy -k 64
            --observed round1.csv --exclude rejected.csv -o round2.csv

        tellmost select 's3://bucket/part-*.parquet' --targets t.parquet -k 1000
            --cluster auto --workers 8 -o picks.parquet
    """
    import tellmost
    from tellmost.cli.inputs import arguments_for, check_choices, read_points, vectors_of
    from tellmost.cli.output import (
        Outlet,
        describe_files,
        has_ended_early,
        print_selection,
        remark_on,
    )
    from tellmost.cli.paths import check_files

    check_files(given)
    outlet = Outlet(given)
    check_choices(given)
    pool, targets = read_points(given)
    outlet.check(pool, targets)
    arguments = arguments_for(tellmost.select, given, pool, targets)
    chosen = tellmost.select(pool.vectors, vectors_of(targets), **arguments)
    rows = outlet.write(chosen, pool, targets)
    remarks = [*remark_on(chosen, arguments), *describe_files(pool, targets)]
    print_selection(chosen, rows, outlet, pool, targets, remarks)
    return NOTHING_LEFT if has_ended_early(chosen) else DONE


@command(
    *("pool", "targets", "labels", "json", "kernel", "normalize", "noise_ratio", "kind"),
    Option("folds", int, RUNNING, default=5).says("Parts of the rows; each is held out once."),
    Option("seed", int, RUNNING, default=0).says("The seed of folds and samples."),
    *(*COLUMNS, "device", "memory", "progress"),
)
def check(given: OptionValues) -> int:
    """Tell whether embeddings suit the method, and which noise fits them.

    With labels: how well a probe with the kernel does on held-out rows, whether the predicted
    variance says where it errs, and the noise by marginal likelihood. With targets: whether they
    predict one another. Always: duplicates, lengths, effective rank. Ends with a verdict in words.

        tellmost check pool.npy --labels y.csv
    """
    from tellmost.cli.output import print_study

    return print_study("check", given)


@command(
    *("pool", "targets", "k", "json", "replace", "rule", "kernel", "noise_ratio", "noise_std"),
    *("normalize", "targets_are", "observed", "exclude", "candidates", "target_weights", *COLUMNS),
    *("device", "memory", "columns_ahead", "progress"),
)
def estimate(given: OptionValues) -> int:
    """Say what a selection will take: time, memory, device, passes over the pool.

    A short trial on the first rows, of about a second, tells how fast this machine is with them.

        tellmost estimate pool.npy --targets val.npy -k 1000
    """
    from tellmost.cli.output import print_study

    if given.k is None:
        raise UsageError("say how many rows: estimate needs -k.")
    return print_study("estimate", given)


@command(
    *("pool", "targets"),
    Option("k", int, ESSENTIALS, default=100, flags=("-k", "--k")).says(
        "How many rows each method picks."
    ),
    "labels",
    Option("target_labels", Path, FILES).says("A file with the label of each target."),
    *("json", "rule"),
    Option("methods", str, PICKS, "NAMES").says(
        "Rules to compare with, by commas; also nearest-in-turn, flqmi and random-in-region. "
        "Default: random,top-k,nearest-in-turn,mmr,flqmi,k-center,random-in-region."
    ),
    Option("seeds", int, PICKS, default=10).says(
        "Runs, each on a random half of the pool, with each half of the targets in turn."
    ),
    Option("budgets", str, PICKS, "NUMBERS").says(
        "Numbers of picks to look at, by commas, up to k. Default: k and an eighth, a quarter and "
        "half of it."
    ),
    *("kind", "kernel", "noise_ratio", "noise_std", "normalize", "targets_are", *COLUMNS),
    *("device", "memory", "progress"),
)
def compare(given: OptionValues) -> int:
    """Compare the picks with those of random choice, nearest neighbours, MMR, FLQMI and k-centre.

    With the labels of pool and targets a probe learns from each method's picks and is tested on
    targets that had no say in the choice, over seeds: accuracy with standard errors, and a plain
    verdict for each number of picks. Without labels only the targets' variance is compared, which
    is circular: VTL minimises it by construction, whether or not that helps.

        tellmost compare pool.npy --targets val.npy -k 200
            --labels y.csv --target-labels t.csv
    """
    from tellmost.cli.output import print_study

    if given.targets is None:
        raise UsageError("compare needs --targets.")
    if (given.labels is None) != (given.target_labels is None):
        raise UsageError("give --labels and --target-labels, or neither.")
    return print_study("compare", given)


@command(
    Option("selection", Path, None, "SELECTION", REQUIRED).says("A .tellmost file."),
    Option("pool", list[str], ESSENTIALS, "FILE", REQUIRED, flags=("--pool", "-p")).says(
        "The pool that it was chosen from, as then."
    ),
    Option("output", Path, ESSENTIALS, default=REQUIRED, flags=("--output", "-o")).says(
        "The page to write."
    ),
    *("targets", *COLUMNS, "title", "purpose", "image_column", "device", "progress"),
)
def report(given: OptionValues) -> int:
    """Write a page about a saved selection: one .html file that needs no network.

    Uncertainty against picks beside random, nearest neighbours and MMR; the picks and the targets
    each serves; a map; the targets that the pool helps least; the health of the pool.

        tellmost select pool.npy --targets val.npy -k 100 -o picks.tellmost

        tellmost report picks.tellmost --pool pool.npy --targets val.npy -o report.html
    """
    from tellmost import Selection
    from tellmost.cli.inputs import read_points
    from tellmost.cli.output import check_page, describe_files, write_page_of
    from tellmost.cli.paths import check_files

    check_files(given)
    check_page(given.output, "--output")
    chosen = Selection.load(given.selection)
    pool, targets = read_points(given)
    write_page_of(given.output, chosen, pool, targets, given)
    print("\n".join([*describe_files(pool, targets), f"written: {given.output}"]))
    return DONE


@command(
    Option("out", Path, OUTPUT, default=Path("tellmost-demo"), flags=("--out", "-o")).says(
        "Folder for the results."
    ),
)
def demo(given: OptionValues) -> int:
    """Learn to tell handwritten 3, 6 and 9 apart, buying as few labels as possible.

    From 1,797 images of all ten digits (scikit-learn's) Tellmost chooses which to label, given
    thirty unlabelled images of 3, 6 and 9. Beside it: nearest neighbours and random choice, with a
    classifier's accuracy over five seeds. Writes picks, a page with images, and all numbers.
    """
    from tellmost.cli.demo import run_demo

    print(run_demo(given.out))
    return DONE


@command()
def doctor(given: OptionValues) -> int:
    """Say what is installed and what it runs on, and check for some seconds that it works here.

    Put what it prints into a report of a problem. Ends with exit code 1 if the check fails.
    """
    from tellmost.cli.doctor import examine

    said, is_well = examine()
    print(said)
    return DONE if is_well else FAILED
