"""Geometry of the rays, exact line integrals, and the pixel matrix."""

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from src import physics_model

FIXTURES = (
    Path(os.environ.get("IMAGING101_FIXTURES", Path(__file__).parents[1] / "fixtures")) / "physics_model"
)
GEOMETRY = ("source_to_isocentre_mm", "source_to_detector_mm", "n_cells", "cell_pitch_mm", "scan_start_rad")


def fixture(name):
    with np.load(FIXTURES / f"{name}.npz", allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files}


def geometry(stored):
    return {key: stored[key].item() for key in GEOMETRY}


def test_source_distances_are_those_of_the_geometry():
    geom = geometry(fixture("source_distances"))
    d_so, d_sd = physics_model.source_distances(geom)
    assert (d_so, d_sd) == (geom["source_to_isocentre_mm"], geom["source_to_detector_mm"])


@pytest.mark.parametrize(
    "wrong",
    [{"source_to_isocentre_mm": 0.0}, {"source_to_detector_mm": -900.0}, {"source_to_detector_mm": 100.0}],
)
def test_source_distances_refuse_an_impossible_scanner(wrong):
    with pytest.raises(ValueError):
        physics_model.source_distances({**geometry(fixture("source_distances")), **wrong})


def test_cell_centres_match_the_fixture_and_are_centred():
    stored = fixture("cell_centres")
    u = physics_model.cell_centres(geometry(stored))
    assert_allclose(u, stored["u"], rtol=1e-12, atol=1e-12)
    assert abs(u.sum()) < 1e-9


def test_cell_centres_refuse_a_missing_pitch():
    geom = geometry(fixture("cell_centres"))
    del geom["cell_pitch_mm"]
    with pytest.raises(ValueError):
        physics_model.cell_centres(geom)


def test_rays_match_the_fixture():
    stored = fixture("ray_geometry")
    origins, directions = physics_model.ray_geometry(stored["betas"], stored["u"], geometry(stored))
    assert_allclose(origins, stored["origins"], rtol=1e-10, atol=1e-9)
    assert_allclose(directions, stored["directions"], rtol=1e-10, atol=1e-12)


def test_source_on_the_right_sees_positive_cells_at_the_top():
    geom = geometry(fixture("ray_geometry"))
    origins, directions = physics_model.ray_geometry(np.array([0.0]), np.array([0.0, 10.0]), geom)
    assert_allclose(origins[0, 0], [geom["source_to_isocentre_mm"], 0.0], atol=1e-9)
    assert_allclose(directions[0, 0], [-1.0, 0.0], atol=1e-12)
    assert directions[0, 1, 1] > 0


def test_redundant_rays_lie_on_one_line():
    geom = geometry(fixture("ray_geometry"))
    beta, gamma = 0.7, 0.11
    u = geom["source_to_detector_mm"] * np.tan([gamma, -gamma])
    first_o, first_d = physics_model.ray_geometry(np.array([beta]), u[:1], geom)
    second_o, second_d = physics_model.ray_geometry(np.array([beta + np.pi - 2 * gamma]), u[1:], geom)
    assert_allclose(second_d, -first_d, atol=1e-12)
    joining = second_o[0, 0] - first_o[0, 0]
    assert abs(joining[0] * first_d[0, 0, 1] - joining[1] * first_d[0, 0, 0]) < 1e-9


def test_rays_refuse_a_table_of_angles():
    with pytest.raises(ValueError):
        physics_model.ray_geometry(np.zeros((2, 2)), np.zeros(3), geometry(fixture("ray_geometry")))


def test_ellipse_integrals_match_the_fixture():
    stored = fixture("project_ellipses")
    p = physics_model.project_ellipses(stored["ellipses"], stored["origins"], stored["directions"])
    assert p.shape == stored["line_integrals"].shape
    assert_allclose(p, stored["line_integrals"], rtol=1e-8, atol=1e-7)


def test_ellipse_integrals_of_known_chords():
    ellipse = np.array([[0.02, 10.0, -5.0, 30.0, 12.0, np.pi / 2]])  # long axis along y after rotation
    origins = np.array([[10.0, 500.0], [500.0, -5.0], [500.0, 60.0], [16.0, 500.0]])
    directions = np.array([[0.0, -1.0], [-1.0, 0.0], [-1.0, 0.0], [0.0, -1.0]])
    p = physics_model.project_ellipses(ellipse, origins, directions)
    assert_allclose(p, [0.02 * 60, 0.02 * 24, 0.0, 0.02 * 60 * np.sqrt(0.75)], rtol=1e-10, atol=1e-12)


def test_ellipse_integrals_are_additive():
    stored = fixture("project_ellipses")
    rays = stored["origins"], stored["directions"]
    parts = [physics_model.project_ellipses(stored["ellipses"][k : k + 1], *rays) for k in range(4)]
    assert_allclose(
        sum(parts), physics_model.project_ellipses(stored["ellipses"], *rays), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("ellipses", [np.ones((2, 5)), np.array([[0.02, 0.0, 0.0, 10.0, -2.0, 0.0]])])
def test_ellipse_integrals_refuse_impossible_ellipses(ellipses):
    with pytest.raises(ValueError):
        physics_model.project_ellipses(ellipses, np.zeros((1, 2)), np.array([[1.0, 0.0]]))


def test_system_matrix_matches_the_fixture():
    stored = fixture("system_matrix")
    matrix = physics_model.system_matrix(
        stored["betas"], geometry(stored), stored["n_pixels"].item(), stored["fov"].item()
    )
    assert sparse.issparse(matrix)
    assert matrix.format == "csr"
    assert_allclose(matrix.toarray(), stored["matrix"], rtol=1e-8, atol=1e-8)


def test_system_matrix_rows_sum_to_the_path_through_the_square():
    geom = {**geometry(fixture("system_matrix")), "n_cells": 3, "cell_pitch_mm": 5.0}
    matrix = physics_model.system_matrix(np.array([0.0, np.pi / 2, np.pi, -np.pi / 2]), geom, 24, 120.0)
    slant = np.hypot(1.0, 5.0 / geom["source_to_detector_mm"])
    assert_allclose(matrix.sum(axis=1).reshape(4, 3), 120.0 * np.array([[slant, 1.0, slant]] * 4), rtol=1e-9)


def test_system_matrix_agrees_with_exact_line_integrals():
    geom = {**geometry(fixture("system_matrix")), "n_cells": 41, "cell_pitch_mm": 4.0}
    betas = np.linspace(0.3, 5.9, 9)
    n_pixels, fov = 120, 120.0
    ellipse = np.array([[0.02, 14.0, -9.0, 30.0, 17.0, 0.5]])
    centres = np.arange(n_pixels) - (n_pixels - 1) / 2
    fine = (np.arange(4 * n_pixels) + 0.5) / 4 - n_pixels / 2
    turned = ((fine - 14.0)[None, :] + 1j * (-fine + 9.0)[:, None]) * np.exp(-0.5j)
    image = 0.02 * ((turned.real / 30) ** 2 + (turned.imag / 17) ** 2 <= 1)
    image = image.reshape(centres.size, 4, centres.size, 4).mean(axis=(1, 3))
    rays = physics_model.ray_geometry(betas, (np.arange(41) - 20) * 4.0, geom)
    exact = physics_model.project_ellipses(ellipse, *rays).ravel()
    projected = physics_model.system_matrix(betas, geom, n_pixels, fov) @ image.ravel()
    assert np.linalg.norm(projected - exact) < 0.02 * np.linalg.norm(exact)


@pytest.mark.parametrize(("n_pixels", "fov"), [(0, 100.0), (16, 0.0)])
def test_system_matrix_refuses_an_empty_grid(n_pixels, fov):
    with pytest.raises(ValueError):
        physics_model.system_matrix(np.array([0.0]), geometry(fixture("system_matrix")), n_pixels, fov)
