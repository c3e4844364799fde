"""The networks of the experiments, their steps and their splits, against slow versions."""

from functools import cache
from itertools import pairwise

import numpy as np
import oracle_networks
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_networks import inner
from torch import nn

import tellmost as tm
from tellmost.finetune import Inputs, embed
from tellmost_reproduction.networks.configurations import EMBEDDINGS
from tellmost_reproduction.networks.convnet import draw_small_head
from tellmost_reproduction.networks.efficientnet import (
    BLOCK_PARTS,
    LAST_BLOCK,
    PARTS,
    Head,
    Trunk,
    load_head,
    load_trunk,
    our_name,
    prepare,
    read_weights,
)
from tellmost_reproduction.networks.problems import (
    CIFAR,
    MNIST,
    among,
    read_cifar,
    read_idx,
    read_mnist,
    read_problem,
)
from tellmost_reproduction.networks.training import Best, Stepper, Training, plan_epochs


def published_weights(seed=0):
    """Random ones under the published names, of the size that keeps activations alive."""
    generator = torch.Generator().manual_seed(seed)
    names = {our_name(name): name for name in published_names()}
    made = {}
    for part in (Trunk(), Head(7)):
        for name, value in part.state_dict().items():
            drawn = torch.randn(value.shape, generator=generator)
            if name.endswith(("running_var", "norm.weight")):
                drawn = 0.5 + drawn.abs()
            elif value.ndim == 4:
                drawn = drawn / value[0].numel() ** 0.5
            made[names[name]] = drawn.to(value.dtype)
    return made


def published_names():
    values = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    yield from (f"{part}.{value}" for part in PARTS for value in values)
    yield from (
        f"_blocks.{number}.{part}.{value}"
        for number in range(LAST_BLOCK + 1)
        for part in BLOCK_PARTS
        for value in values
    )


def test_trunk_and_head_are_the_published_network(tmp_path):
    published = published_weights()
    weights = {our_name(name): value for name, value in published.items()}
    trunk, head = load_trunk(weights), load_head(weights, 7, seed=0)
    head.final.load_state_dict({k: weights[f"final.{k}"] for k in ("weight", "bias")})
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (1, 32, 32, 3)))
    images = prepare(pixels.to(torch.uint8))[..., :64, :64]
    with torch.no_grad():
        got = head(trunk(images))
    expected = oracle_networks.lite0(images, published)
    torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4)


def test_a_new_final_layer_is_drawn_and_all_else_is_pretrained():
    weights = {our_name(name): value for name, value in published_weights().items()}
    one, same, other = (load_head(weights, 3, seed=seed) for seed in (1, 1, 2))
    assert one.final.weight.shape == (3, 1280)
    assert torch.equal(one.final.weight, same.final.weight)
    assert not torch.equal(one.final.weight, other.final.weight)
    assert torch.equal(one.head.conv.weight, weights["head.conv.weight"])


@settings(max_examples=15, deadline=None)
@given(n=st.integers(1, 20), epochs=st.integers(1, 3), seed=st.integers(0, 99))
def test_an_epoch_has_every_example_once_and_weights_of_a_step_sum_to_one(n, epochs, seed):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 3, n)
    plan = plan_epochs(labels, epochs, generator, batch=8)
    assert len(plan.rows) == epochs * -(-n // 8)
    assert np.bincount(plan.rows[plan.weights > 0], minlength=n).tolist() == [epochs] * n
    np.testing.assert_allclose(plan.weights.sum(axis=1), 1.0)


def test_steps_are_those_of_a_plain_weighted_loop():
    generator = np.random.default_rng(0)
    inputs = torch.from_numpy(generator.normal(size=(11, 16, 4, 4)))
    labels = np.array([0, 1, 2, 2, 2, 2, 2, 1, 0, 2, 2])
    fast, slow = draw_small_head(0, 3).double(), draw_small_head(0, 3).double()
    stepper = Stepper(fast, inputs[0], capacity=20, steps=12, batch=4)
    plan = plan_epochs(labels, 2, np.random.default_rng(1), batch=4)
    stepper.load(inputs, torch.from_numpy(labels), plan)
    stepper.step(len(plan.rows))
    orders = [plan.rows[3 * epoch : 3 * epoch + 3].ravel()[:11] for epoch in range(2)]
    oracle_networks.train(slow, inputs, labels, orders, batch=4)
    for one, other in zip(fast.parameters(), slow.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_making_a_stepper_leaves_the_network_as_it_is_and_forgetting_starts_again():
    model = draw_small_head(0, 3)
    inputs, labels = torch.randn(5, 16, 4, 4), torch.tensor([0, 1, 2, 0, 1])
    stepper = Stepper(model, inputs[0], capacity=5, steps=5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert all(
        torch.equal(value, draw_small_head(0, 3).state_dict()[k]) for k, value in before.items()
    )
    made = []
    for _ in range(2):
        model.load_state_dict(before)
        stepper.forget()
        plan = plan_epochs(labels.numpy(), 3, np.random.default_rng(0))
        stepper.load(inputs, labels, plan)
        stepper.step(3)
        made.append(model.final.weight.detach().clone())
    assert torch.equal(*made)
    assert not torch.equal(made[0], before["final.weight"])


def test_the_best_weights_are_kept_and_of_equal_ones_the_last():
    model = nn.Linear(1, 2, bias=False)
    best = Best(model, torch.tensor([[1.0], [2.0]]), torch.tensor([0, 0]))
    for weights in ([1.0, 0.0], [2.0, 0.0], [0.0, 3.0]):
        with torch.no_grad():
            model.weight.copy_(torch.tensor(weights)[:, None])
        best.look()
    assert best.restore() == 1.0
    assert model.weight[:, 0].tolist() == [2.0, 0.0]


def test_pixels_become_what_the_published_weights_were_trained_on():
    pixels = torch.tensor([0, 127, 255]).to(torch.uint8).expand(2, 32, 32, 3)
    images = prepare(pixels)
    assert images.shape == (2, 3, 224, 224)
    for channel, value in enumerate((-0.9921875, 0.0, 1.0)):  # (x - 127) / 128
        torch.testing.assert_close(images[:, channel], torch.full((2, 224, 224), value))


@pytest.mark.parametrize("name", [CIFAR, MNIST])
def test_a_round_that_brings_no_image_of_the_task_trains_nothing(name):
    problem = read_problem(name, None, torch.device("cpu"), is_smoke=True)
    model = problem.draw(0).eval()
    training = Training(model, problem, 10)
    training.start(0)
    rows = np.flatnonzero(problem.is_in_task)[:5]
    inputs, labels = problem.inputs[rows], torch.from_numpy(problem.labels[rows])
    weights = []
    for number, count in enumerate((0, 4, 4, 5)):
        training(model, inputs[:count], labels[:count], number + 1)
        weights.append(model.final.weight.detach().clone())
    same = [torch.equal(one, other) for one, other in pairwise(weights)]
    assert same == [False, True, False]


def test_labels_count_the_classes_of_the_task():
    assert among(np.array([3, 0, 9, 6, 7]), (3, 6, 9)).tolist() == [0, 3, 2, 1, 3]


def test_idx_files_are_read_and_others_refused(tmp_path):
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    content = (2051).to_bytes(4, "big") + np.array([2, 3, 4], ">i4").tobytes() + pixels.tobytes()
    (tmp_path / "images").write_bytes(content)
    assert (read_idx(tmp_path / "images") == pixels).all()
    (tmp_path / "other").write_bytes(b"\x1f\x8b\x08\x00")
    with pytest.raises(ValueError, match=r"no file of MNIST.*gunzip"):
        read_idx(tmp_path / "other")


@pytest.mark.parametrize("read", [read_cifar, read_mnist, read_weights])
def test_a_folder_without_the_files_is_told_what_is_missing(read, tmp_path):
    with pytest.raises(FileNotFoundError, match="--data must"):
        read(tmp_path)


def test_without_a_folder_the_full_size_says_what_it_needs():
    with pytest.raises(ValueError, match=r"needs --data.*--smoke"):
        read_problem(MNIST, None, torch.device("cpu"))


CANDIDATES, TARGETS, PICKS = 80, 5, 10
EXAMPLES = 40


@cache
def trained():
    """The digits' network after a round of training on some images of the task."""
    problem = read_problem(CIFAR, None, torch.device("cpu"), is_smoke=True)
    model = problem.draw(0).eval()
    training = Training(model, problem, EXAMPLES)
    training.start(0)
    rows = np.flatnonzero(problem.is_in_task)[:EXAMPLES]
    training(model, problem.inputs[rows], torch.from_numpy(problem.labels[rows]), 1)
    return problem, model


def gram_of(kind, classes):
    """Of residuals and features side by side the gradients' inner product, or of features."""

    def products(one, other):
        return inner(one[:classes], other[:classes]) * inner(one[classes:], other[classes:])

    return products if kind == "loss" else inner


@pytest.mark.parametrize("rho", [0.0001, 0.01])
@pytest.mark.parametrize("rule", ["itl-y", "ctl"])
@pytest.mark.parametrize("kind", ["loss", "last"])
def test_a_batch_of_ten_is_that_of_many_digits_where_noise_is_small(kind, rule, rho):
    problem, model = trained()
    inside = np.flatnonzero(problem.is_in_task)[-TARGETS:]
    others = np.random.default_rng(0).permutation(inside[0])[:CANDIDATES]
    rows = np.concatenate([inside, others])
    embedded = embed(model, Inputs(problem.inputs, rows, "pool"), EMBEDDINGS[kind][1])
    chosen = tm.select(
        embedded.points[TARGETS:],
        embedded.points[:TARGETS],
        PICKS,
        rule=rule,
        kernel="linear" if embedded.kernel is None else embedded.kernel,
        noise_std=rho,
        progress=False,
    )
    picks, gains = oracle_networks.choose_in_many_digits(
        embedded.points.tolist(),
        gram_of(kind, problem.classes),
        PICKS,
        rule,
        rho,
        targets=TARGETS,
    )
    assert chosen.indices.tolist() == picks
    assert chosen.gains.tolist() == pytest.approx(gains, rel=1e-9)
