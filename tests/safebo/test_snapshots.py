"""What the figures of an optimization show: the optimizer's own numbers, with names."""

import numpy as np
import pytest

import tellmost as tm

pytest.importorskip("matplotlib")

X = np.linspace(0.0, 10.0, 81)


def on_a_line(**more):
    height = tm.Constraint(
        tm.GP(tm.kernels.Gaussian(1.5), noise_std=0.1), at_least=-0.5, at_most=2.0
    )
    opt = tm.SafeOptimizer(
        X,
        objective=tm.GP(tm.kernels.Gaussian(1.5), noise_std=0.1),
        constraints={"height": height},
        safe_seed=[40],
        names=["throttle"],
        on_violation="continue",
        suspect_z=np.inf,
        **more,
    )
    for row, height in ((40, 0.5), (42, 0.7), (38, -0.6), (60, 3.0)):
        opt.tell(row=row, objective=np.sin(X[row]), constraints={"height": height})
    opt.tell(row=45, failed=True)
    opt.tell(row=41, objective=0.4)  # the height was not measured
    return opt


def on_a_plane(domain):
    gp = tm.GP(tm.kernels.Gaussian(1.5), noise_std=0.1)
    opt = tm.SafeOptimizer(
        domain,
        objective=gp,
        constraints={"load": tm.Constraint(gp, at_least=-1.0)},
        suspect_z=np.inf,
    )
    points = opt.points
    for row in (3, 10, 17):
        opt.tell(points[row], 0.3 * row)
    return opt


def labels_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def offsets(axes, label):
    return np.concatenate([c.get_offsets() for c in axes.collections if c.get_label() == label])


def line(axes, label):
    return next(one for one in axes.lines if one.get_label() == label)


def test_bands_are_those_of_the_optimizer():
    opt = on_a_line()
    figure = opt.plot()
    objective, height, sets = figure.axes
    assert [axes.get_ylabel() for axes in (objective, height)] == ["objective", "height"]
    assert sets.get_xlabel() == "throttle"
    np.testing.assert_array_equal(line(height, "mean").get_xdata(), X)
    np.testing.assert_allclose(line(height, "mean").get_ydata(), opt.predict(name="height")[0])
    band = height.collections[0].get_paths()[0].vertices
    lower, upper = opt.bounds("height")
    assert band[:, 1].min() == pytest.approx(lower.min())
    assert band[:, 1].max() == pytest.approx(upper.max())
    limits = [one.get_ydata()[0] for one in height.lines if one.get_label() == "limit"]
    assert limits == [-0.5, 2.0]


def test_trials_are_marked_by_what_came_of_them():
    _, height, _ = on_a_line().plot().axes
    np.testing.assert_allclose(offsets(height, "told, safe"), [[5.0, 0.5], [5.25, 0.7]])
    np.testing.assert_allclose(offsets(height, "told, marginal"), [[4.75, -0.6]])
    np.testing.assert_allclose(offsets(height, "told, violated"), [[7.5, 3.0]])
    assert offsets(height, "failed")[:, 0].tolist() == [X[45]]


def test_sets_and_the_best_stand_where_they_are():
    opt = on_a_line()
    objective, _, sets = opt.plot().axes
    drawn = {one.get_gid(): np.asarray(one.get_offsets())[:, 0] for one in sets.collections}
    np.testing.assert_array_equal(drawn["safe"], X[opt.safe_mask])
    np.testing.assert_array_equal(drawn["may be safe"], X[opt.optimistic_mask])
    np.testing.assert_array_equal(drawn["targets"], X[opt.target_mask])
    assert line(objective, "best").get_xdata()[0] == opt.best.x[0]


def test_history_shows_the_best_bound_after_each_trial():
    opt = on_a_line()
    expected = []
    again = tm.SafeOptimizer(
        X,
        objective=tm.GP(tm.kernels.Gaussian(1.5), noise_std=0.1),
        constraints={
            "height": tm.Constraint(
                tm.GP(tm.kernels.Gaussian(1.5), noise_std=0.1), at_least=-0.5, at_most=2.0
            )
        },
        on_violation="continue",
        suspect_z=np.inf,
    )
    for trial in opt.history:
        values = dict(trial.values)
        failed = not values
        again.tell(
            row=trial.index,
            objective=values.pop("objective", None),
            constraints=values or None,
            failed=failed,
        )
        expected.append(again.best.bound if again.safe_mask.any() else np.nan)
    objective, height = opt.plot("history").axes
    drawn = line(objective, "best point: at least")
    np.testing.assert_array_equal(drawn.get_xdata(), np.arange(1, 7))
    np.testing.assert_allclose(drawn.get_ydata(), expected)
    np.testing.assert_allclose(offsets(height, "told, violated"), [[4, 3.0]])
    assert height.get_xlabel() == "trial"


def test_what_is_minimized_is_bounded_from_above():
    objective, _ = on_a_line(direction="minimize").plot("history").axes
    assert line(objective, "best point: at most") in objective.lines


def test_a_grid_is_drawn_as_a_map_with_edges():
    axis = np.linspace(0, 4, 9)
    grid = np.stack(np.meshgrid(axis, axis / 2), -1).reshape(-1, 2)
    opt = on_a_plane(grid)
    figure = opt.plot()
    sets, values = figure.axes[:2]
    states = np.asarray(sets.collections[0].get_array()).reshape(-1)
    np.testing.assert_array_equal(states, opt.safe_mask.astype(int) + opt.optimistic_mask)
    mean = np.asarray(values.collections[0].get_array()).reshape(-1)
    np.testing.assert_allclose(mean, opt.predict()[0])
    assert values.get_title() == "mean of objective = load"
    assert [text.get_text() for text in sets.texts] == ["2", "1"]  # 3 is the best: under its star
    np.testing.assert_allclose(offsets(sets, "best"), [opt.best.x])
    assert "edge of the safe set" in labels_of(figure)


def test_scattered_points_are_drawn_as_points():
    scattered = np.random.default_rng(0).uniform(0, 3, size=(30, 2))
    opt = on_a_plane(scattered)
    sets, values = opt.plot().axes[:2]
    np.testing.assert_allclose(sets.collections[0].get_offsets(), opt.points)
    np.testing.assert_allclose(offsets(sets, "targets"), opt.points[opt.target_mask])
    sizes = values.collections[0].get_sizes()
    np.testing.assert_array_equal(sizes > 10, opt.safe_mask)


def test_more_parameters_have_a_history():
    opt = on_a_plane(tm.Box([0.0] * 3, [1.0] * 3))
    assert len(opt.plot().axes) == 1
    with pytest.raises(ValueError, match="needs 2 parameters, and there are 3"):
        opt.plot("map")


@pytest.mark.skipif(
    "config.getoption('--shapes', False)",
    reason="with shapes checked, annotations refuse bad input before the library does",
)
def test_an_unknown_kind_of_figure_is_refused():
    with pytest.raises(ValueError, match="kind must be 'bands'"):
        on_a_line().plot("pie")


def test_a_fresh_optimizer_can_be_drawn():
    gp = tm.GP(tm.kernels.Gaussian(1.0))
    opt = tm.SafeOptimizer(X, objective=gp, constraints={"g": tm.Constraint(gp, at_least=0.0)})
    assert len(opt.plot().axes) == 2 and len(opt.plot("history").axes) == 1
    assert "best" not in labels_of(opt.plot())


def test_the_context_is_named():
    gp = tm.GP(tm.kernels.Gaussian(1.0), noise_std=0.1)
    opt = tm.SafeOptimizer(X, objective=gp, contexts=["outside"])
    opt.tell(row=3, objective=0.5, context=[12.5])
    assert "outside = 12.5" in opt.plot().axes[0].get_title(loc="left")
