"""Laws of the children that need no environment: storage formats agree, images are natural, pruning counts, bytes follow the schedule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from advisor.claims.children.images import HEIGHT, WIDTH, natural
from advisor.claims.children.pruning import WIDTH as NEURONS
from advisor.claims.children.pruning import parameters
from advisor.claims.children.real_int8 import functions, loss
from advisor.claims.children.storage import LINE, _files, _tar
from advisor.claims.children.tvm_tuned import SIDE, WIDE, reference


def test_formats_hold_the_same_bytes(tmp_path: Path) -> None:
    data = np.random.default_rng(1).integers(0, 256, (9, 1000), dtype=np.uint8)
    want = int(data[:, ::LINE].sum())
    for kind, make in (("files", _files), ("tar", _tar)):
        folder = tmp_path / kind
        folder.mkdir()
        read, files = make(folder, data, list(range(9)))
        assert read() == want
        assert all(path.is_file() for path in files)


def test_images_have_the_spectrum_of_natural_ones() -> None:
    image = natural(np.random.default_rng(2), WIDTH, HEIGHT)
    assert image.shape == (HEIGHT, WIDTH, 3)
    power = np.abs(np.fft.rfft(image[..., 0].astype(float) - image[..., 0].mean(), axis=1)).mean(0) ** 2
    low, high = power[2:8].mean(), power[64:128].mean()
    assert low > 8 * high  # white noise would give 1


def test_thirty_per_cent_of_the_parameters_are_left() -> None:
    width = max(w for w in range(1, NEURONS + 1) if parameters(w) <= 0.3 * parameters(NEURONS))
    assert 0.29 < parameters(width) / parameters(NEURONS) <= 0.3


def test_a_loss_is_a_difference_of_shares_with_its_interval() -> None:
    wide = np.array([True] * 90 + [False] * 10)
    narrow = wide.copy()
    narrow[:5] = False
    row = loss("x", wide, narrow)
    assert row["value"] == pytest.approx(0.05)
    assert row["low"] < 0.05 < row["high"]
    assert loss("x", narrow, wide)["value"] == pytest.approx(-0.05)
    assert loss("x", wide, wide)["value"] == 0


def test_functions_to_find_do_not_name_themselves() -> None:
    pairs = functions()
    assert len(pairs) > 200
    assert len({line for _, line in pairs}) == len(pairs)
    assert not any(name.split()[-1].lower() in line.lower() and " " not in name.split(" ", 1)[1] for name, line in pairs)


def test_the_block_adds_its_input() -> None:
    x = np.random.default_rng(3).standard_normal((WIDE, SIDE, SIDE)).astype(np.float32)
    nothing = [np.zeros(shape, np.float32) for shape in ((64, WIDE, 1, 1), (64, 64, 3, 3), (WIDE, 64, 1, 1))]
    assert np.array_equal(reference(x, nothing), np.maximum(x, 0))
