"""Make data, truth, fixtures and reference outputs again: `python evaluation/generate.py [--out DIR]`.

imaging101-canary-264fd045-2a38-4228-b180-dad0a20e427c
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TASK = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TASK))

N = 120  # reconstructed pixels per axis
FINE = 4  # fine-grid samples per pixel and axis
PIXEL_MM = 2.0
REDUCTION = 3
SIGMA = 0.055
PRESCAN_SAMPLES = 1024
NODE_SPACING = 4
SEED = 20010
COUPLING_SEED = 7
COILS = 8
CANARY = "imaging101-canary-264fd045-2a38-4228-b180-dad0a20e427c"


def fine_positions() -> NDArray[np.float64]:
    """Positions in mm of the fine samples; sample FINE*N/2 sits at the isocentre, as pixel N/2 does."""
    return (np.arange(FINE * N) - FINE * N // 2) * PIXEL_MM / FINE


def smooth_field(rng: np.random.Generator, x: NDArray, y: NDArray, waves: int, shortest_mm: float) -> NDArray:
    """Sum of random plane waves longer than `shortest_mm`, of unit expected standard deviation."""
    total = np.zeros(np.broadcast(x, y).shape)
    for _ in range(waves):
        frequency = np.sqrt(rng.uniform(0.02, 1)) / shortest_mm
        angle, phase = rng.uniform(0, 2 * np.pi, 2)
        total += np.cos(2 * np.pi * frequency * (x * np.cos(angle) + y * np.sin(angle)) + phase)
    return total * np.sqrt(2 / waves)


def head() -> NDArray[np.complex128]:
    """The complex object on the fine grid: a brain-like slice of magnitude 0 ... 1.2 a.u., rows along y."""
    rng = np.random.default_rng(SEED)
    y, x = np.meshgrid(fine_positions(), fine_positions(), indexing="ij")

    def ellipse(x0: float, y0: float, a: float, b: float, degrees: float = 0.0) -> NDArray[np.bool_]:
        angle = np.deg2rad(degrees)
        u = (x - x0) * np.cos(angle) + (y - y0) * np.sin(angle)
        v = -(x - x0) * np.sin(angle) + (y - y0) * np.cos(angle)
        return (u / a) ** 2 + (v / b) ** 2 <= 1

    magnitude = np.zeros_like(x)
    magnitude[ellipse(3, -2, 84, 104, 3)] = 0.95  # scalp fat
    magnitude[ellipse(3, -2, 79, 99, 3)] = 0.06  # skull
    magnitude[ellipse(3, -1, 73, 93, 3)] = 0.32  # CSF rim
    # folded cortex: radius in units of the brain's ellipse, modulated by incommensurate angular waves
    angle = np.arctan2((y + 1) / 89, (x - 3) / 69)
    radius = np.hypot((x - 3) / 69, (y + 1) / 89)
    folds = 0.035 * np.cos(23 * angle + 1.1 * np.sin(3 * angle)) + 0.025 * np.cos(
        14 * angle + 2 + np.sin(5 * angle)
    )
    grey = radius <= 0.97 + 0.6 * np.minimum(folds, 0)
    white = radius <= 0.80 + 1.4 * folds + 0.04 * np.cos(2 * angle + 0.6)
    magnitude[grey] = 0.62
    magnitude[white] = 0.88
    fissure = (np.abs(x - 3 - 1.5 * np.sin(y / 17)) < 1.3) & (np.abs(y + 1) > 44) & (radius < 0.97)
    magnitude[fissure] = 0.32
    for inside, value in (
        (ellipse(-9, -9, 7, 24, 12), 0.30),  # left ventricle
        (ellipse(14, -6, 6, 20, -14), 0.30),  # right ventricle
        (ellipse(-25, -4, 8, 15, -8), 0.66),  # basal ganglia
        (ellipse(29, -1, 8, 14, 10), 0.66),
        (ellipse(-17, 17, 10, 8, 20), 0.70),  # thalami
        (ellipse(20, 19, 9, 8, -25), 0.70),
        (ellipse(38, -38, 9, 7, 30), 1.08),  # lesion
        (ellipse(36, -39, 3.5, 2.5, 30), 0.40),  # its core
        (ellipse(-40, 33, 1.6, 1.6), 0.35),  # vessels and small structures of one to two pixels
        (ellipse(-34, 39, 2.2, 1.4, 40), 1.10),
        (ellipse(-29, -47, 1.5, 3, 20), 0.40),
        (ellipse(8, 50, 1.7, 1.7), 1.10),
        (ellipse(45, 22, 1.2, 2.6, -15), 0.38),
    ):
        magnitude[inside] = value
    magnitude *= 1 + 0.03 * smooth_field(rng, x, y, 60, 12)
    # transmit and receive phase of about one radian, with a bump where air meets tissue
    bump = np.exp(-((x - 12) ** 2 + (y + 78) ** 2) / (2 * 28**2))
    phase = 0.5 + 0.006 * x - 0.004 * y + 0.5 * (x / 90) * (y / 90) + 1.1 * bump
    phase += 0.12 * smooth_field(rng, x, y, 20, 80)
    return magnitude * np.exp(1j * phase)


def coil_maps(y: NDArray, x: NDArray) -> NDArray[np.complex128]:
    """Receive field B_x - i B_y of COILS loops round the head, in units of the largest at the isocentre.

    Biot-Savart over each loop's segments, softened by 50 mm so that the field stays smooth near the wires.
    y and x are coordinates in mm that broadcast; the loops, all a little different, stand on an elliptic
    cylinder along z.
    """
    rng = np.random.default_rng(SEED + 1)
    steps = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    maps = []
    for coil in range(COILS):
        azimuth = 2 * np.pi * (coil + 0.2) / COILS + rng.uniform(-0.06, 0.06)
        size = rng.uniform(66, 74)
        normal = np.array([np.cos(azimuth), np.sin(azimuth), 0])
        centre = np.array([150 * np.cos(azimuth), 166 * np.sin(azimuth), rng.uniform(-10, 10)])
        along, axial = np.array([-normal[1], normal[0], 0]), np.array([0.0, 0, 1])
        points = centre + size * (np.cos(steps)[:, None] * along + np.sin(steps)[:, None] * axial)
        tangents = (
            size * (-np.sin(steps)[:, None] * along + np.cos(steps)[:, None] * axial) * (steps[1] - steps[0])
        )
        field = np.zeros(np.broadcast(x, y).shape, dtype=np.complex128)
        for point, tangent in zip(points, tangents, strict=True):
            dx, dy, dz = x - point[0], y - point[1], -point[2]
            cube = (dx**2 + dy**2 + dz**2 + 50.0**2) ** 1.5
            b_x = (tangent[1] * dz - tangent[2] * dy) / cube
            b_y = (tangent[2] * dx - tangent[0] * dz) / cube
            field += b_x - 1j * b_y
        maps.append(field * np.exp(1j * rng.uniform(0, 2 * np.pi)))
    return np.array(maps)


def noise_mixing() -> NDArray[np.complex128]:
    """Matrix M of n = sigma M w, w white: two noisy receivers, and coupling between all of them."""
    rng = np.random.default_rng(COUPLING_SEED)
    coupling = rng.normal(size=(COILS, COILS)) + 1j * rng.normal(size=(COILS, COILS))
    return np.diag([1, 1, 1, 4, 1, 1, 2.5, 1]) @ (np.eye(COILS) + 0.4 * coupling / np.sqrt(2))


def centred_fft(image: NDArray) -> NDArray[np.complex128]:
    axes = (-2, -1)
    return np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(image, axes=axes), norm="ortho"), axes=axes)


def low_frequencies(fine_image: NDArray) -> NDArray[np.complex128]:
    """Central N x N samples of the fine unitary spectrum, divided by FINE so that image amplitudes stay."""
    first = FINE * N // 2 - N // 2
    window = slice(first, first + N)
    return centred_fft(fine_image)[..., window, window] / FINE


def acquire(noise_seed: int = SEED + 3) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """The measurement (public arrays) and what it was made from (truth, support)."""
    fine = fine_positions()
    scale = 1 / np.abs(coil_maps(np.zeros(1), np.zeros(1))).max()
    rows = np.arange(0, N, REDUCTION)
    spectrum = np.stack(
        [
            low_frequencies(head_times_map)
            for head_times_map in head() * scale * coil_maps(fine[:, None], fine)
        ]
    )[:, rows]

    rng = np.random.default_rng(noise_seed)
    mixing = noise_mixing()

    def receiver_noise(samples: int) -> NDArray[np.complex128]:
        white = rng.normal(size=(COILS, samples)) + 1j * rng.normal(size=(COILS, samples))
        return SIGMA / np.sqrt(2) * mixing @ white

    prescan = receiver_noise(PRESCAN_SAMPLES)
    noisy = spectrum + receiver_noise(spectrum[0].size).reshape(spectrum.shape)
    nodes = np.arange(-NODE_SPACING, N + NODE_SPACING + 1, NODE_SPACING, dtype=np.float64)
    at_nodes = (nodes - N // 2) * PIXEL_MM
    public = {
        "k_space": noisy.astype(np.complex64),
        "rows": rows.astype(np.int64),
        "noise_prescan": prescan.astype(np.complex64),
        "coil_maps": (scale * coil_maps(at_nodes[:, None], at_nodes)).astype(np.complex64),
        "node_positions": nodes,
    }
    truth = centred_fft(
        low_frequencies(head()).conj()
    ).conj()  # inverse of the unitary centred transform, N even
    y, x = np.meshgrid((np.arange(N) - N // 2) * PIXEL_MM, (np.arange(N) - N // 2) * PIXEL_MM, indexing="ij")
    tilt = np.deg2rad(3)
    u, v = (x - 3) * np.cos(tilt) + (y + 2) * np.sin(tilt), -(x - 3) * np.sin(tilt) + (y + 2) * np.cos(tilt)
    support = (u / 84) ** 2 + (v / 104) ** 2 <= 1
    return public, {"truth": truth, "support": support}


META = {
    "modality": "MRI, 2-D Cartesian gradient echo, one slice, 8-channel head array",
    "image_shape": [N, N],
    "field_of_view_mm": [N * PIXEL_MM, N * PIXEL_MM],
    "pixel_mm": PIXEL_MM,
    "coils": COILS,
    "acquired_rows": N // REDUCTION,
    "reduction_factor": REDUCTION,
    "phase_encode_axis": -2,
    "readout_axis": -1,
    "noise_prescan_samples": PRESCAN_SAMPLES,
    "map_node_spacing_pixels": NODE_SPACING,
}


# Grids of the fixtures: coils, rows, columns, reduction, first row, nodes per axis.
VISIBLE = {"coils": 4, "height": 12, "width": 9, "reduction": 3, "first": 0, "nodes": 6}
HIDDEN = {"coils": 5, "height": 20, "width": 7, "reduction": 4, "first": 3, "nodes": 8}


def figures(image: NDArray, truth: NDArray, support: NDArray) -> dict[str, object]:
    """The four published metrics of `image` inside the support."""
    a, b = image[support], truth[support]
    a0, b0 = a - a.mean(), b - b.mean()
    return {
        "canary": CANARY,
        "ncc": float(abs(np.vdot(a, b)) / np.linalg.norm(a) / np.linalg.norm(b)),
        "nrmse": float(np.sqrt(np.mean(np.abs(a - b) ** 2)) / np.ptp(np.abs(b))),
        "cncc": float(abs(np.vdot(a0, b0)) / np.linalg.norm(a0) / np.linalg.norm(b0)),
        "rel_l2": float(np.linalg.norm(a - b) / np.linalg.norm(b)),
    }


def dft_matrix(size: int) -> NDArray[np.complex128]:
    """Unitary centred DFT written out entry by entry."""
    index = np.arange(size) - size // 2
    return np.exp(-2j * np.pi * np.outer(index, index) / size) / np.sqrt(size)


def encoding_matrix(maps: NDArray, rows: NDArray) -> NDArray[np.complex128]:
    """The encoding operator as a dense (C A X, Y X) matrix."""
    height, width = maps.shape[1:]
    fourier = np.kron(dft_matrix(height)[rows], dft_matrix(width))
    return np.concatenate([fourier * coil.ravel() for coil in maps])


def cholesky_inverse(psi: NDArray) -> NDArray[np.complex128]:
    """L^-1 of psi = L L^H by orthonormalising the unit vectors' duals in the metric psi (Gram-Schmidt)."""
    whitener = np.zeros_like(psi)
    for coil in range(len(psi)):
        row = np.zeros(len(psi), dtype=complex)
        row[coil] = 1
        for earlier in whitener[:coil]:
            row -= (row @ psi @ earlier.conj()) * earlier
        whitener[coil] = row / np.sqrt((row @ psi @ row.conj()).real)
    return whitener


def krylov_minimiser(matrix: NDArray, rhs: NDArray, steps: int) -> NDArray[np.complex128]:
    """What `steps` of conjugate gradients must give: the energy-norm minimiser over the Krylov space."""
    basis = np.zeros((len(rhs), 0), dtype=complex)
    vector = rhs
    for _ in range(steps):
        for _ in range(2):  # twice is enough for orthogonality to rounding
            vector = vector - basis @ (basis.conj().T @ vector)
        basis = np.column_stack([basis, vector / np.linalg.norm(vector)])
        vector = matrix @ basis[:, -1]
    return basis @ np.linalg.solve(basis.conj().T @ matrix @ basis, basis.conj().T @ rhs)


def g_by_variances(maps: NDArray, psi: NDArray, reduction: int) -> NDArray[np.float64]:
    """g from its definition: noise of the reduced scan over that of the full one, from whole columns."""
    height, width = maps.shape[1:]
    inverse = np.linalg.inv(psi)
    variances = {}
    for step in (1, reduction):
        fourier = dft_matrix(height)[::step]
        variances[step] = np.empty((height, width))
        for column in range(width):
            blocks = np.stack([fourier * coil[:, column] for coil in maps])
            fisher = np.einsum("cka,cd,dkb->ab", blocks.conj(), inverse, blocks)
            variances[step][:, column] = np.linalg.inv(fisher).diagonal().real
    return np.sqrt(variances[reduction] / (reduction * variances[1]))


def fixtures(
    rng: np.random.Generator,
    public: dict[str, NDArray],
    coils: int,
    height: int,
    width: int,
    reduction: int,
    first: int,
    nodes: int,
) -> dict[str, dict[str, NDArray]]:
    """Inputs and expected outputs of every function, expected ones from dense matrices and closed forms."""

    def gaussian(*shape: int) -> NDArray[np.complex128]:
        return rng.normal(size=shape) + 1j * rng.normal(size=shape)

    image, maps = gaussian(height, width), gaussian(coils, height, width)
    rows = np.arange(first, height, reduction)
    scattered = np.sort(rng.permutation(height)[: height // 2])
    mixing = np.eye(coils) + 0.5 * gaussian(coils, coils)
    psi = 0.01 * mixing @ mixing.conj().T
    noise = 0.1 * mixing @ gaussian(coils, 40 * coils)

    probes = {key: rng.integers(0, public[key].size, 12) for key in ("k_space", "noise_prescan", "coil_maps")}
    scan = {f"{key}_index": index for key, index in probes.items()}
    scan |= {f"{key}_value": public[key].ravel()[index].astype(complex) for key, index in probes.items()}
    scan |= {f"{key}_shape": np.array(public[key].shape) for key in probes}
    scan |= {"rows": public["rows"], "node_positions": public["node_positions"]}

    gaps = np.append(0, rng.uniform(1.5, 3, nodes - 1)).cumsum()
    positions = -1.5 + gaps / gaps[-1] * (max(height, width) + 2)
    powers = gaussian(coils, 4, 4)

    def polynomial(y: NDArray, x: NDArray) -> NDArray[np.complex128]:
        y_powers, x_powers = (np.vander(v / 10, 4, increasing=True) for v in (y, x))
        return np.einsum("ya,cab,xb->cyx", y_powers, powers, x_powers)

    whitener = cholesky_inverse(psi)
    data = gaussian(coils, 3, width)
    matrix_dft = [dft_matrix(height), dft_matrix(width)]
    stack = gaussian(2, height, width)
    stack_k = np.einsum("kj,cjm,lm->ckl", matrix_dft[0], stack, matrix_dft[1])

    dense = encoding_matrix(maps, scattered)
    k_scattered = gaussian(coils, scattered.size, width)
    factor = gaussian(15 + coils, 15)
    hermitian = factor.conj().T @ factor + np.eye(15)
    rhs = gaussian(15)
    krylov = np.stack([krylov_minimiser(hermitian, rhs, steps) for steps in range(1, 5)])
    residuals = np.linalg.norm(rhs - krylov @ hermitian.T, axis=1) / np.linalg.norm(rhs)

    uniform = encoding_matrix(maps, rows)
    k_uniform = gaussian(coils, rows.size, width)
    lam = 0.3
    normal = uniform.conj().T @ uniform
    back = uniform.conj().T @ k_uniform.ravel()
    regular = normal + lam * np.eye(len(normal))
    root = 1 / np.sqrt(regular.diagonal().real)
    corrected = root[:, None] * regular * root
    early = np.stack([root * krylov_minimiser(corrected, root * back, steps) for steps in range(1, 4)])
    early_residuals = np.linalg.norm(root * (back - early @ regular.T), axis=1) / np.linalg.norm(root * back)

    def grid(flat: NDArray) -> NDArray:
        return flat.reshape(*flat.shape[:-1], height, width)

    solver_inputs = {"k_space": k_uniform, "maps": maps, "rows": rows, "lam": np.array(lam)}
    return {
        "preprocessing/load_scan": scan,
        "preprocessing/interpolate_maps": {
            "coil_maps": polynomial(positions, positions),
            "node_positions": positions,
            "shape": np.array([height, width]),
            "expected": polynomial(np.arange(height), np.arange(width)),
        },
        "preprocessing/noise_covariance": {
            "noise_prescan": noise,
            "expected": np.mean([np.outer(n, n.conj()) for n in noise.T], axis=0),
        },
        "preprocessing/prewhiten": {
            "k_space": data,
            "maps": maps,
            "psi": psi,
            "expected_k_space": np.einsum("ab,b...->a...", whitener, data),
            "expected_maps": np.einsum("ab,b...->a...", whitener, maps),
        },
        "physics_model/fft2c": {"image": stack, "expected": stack_k},
        "physics_model/ifft2c": {"k_space": stack_k, "expected": stack},
        "physics_model/encode": {
            "image": image,
            "maps": maps,
            "rows": scattered,
            "expected": (dense @ image.ravel()).reshape(coils, -1, width),
        },
        "physics_model/encode_adjoint": {
            "k_space": k_scattered,
            "maps": maps,
            "rows": scattered,
            "expected": grid(dense.conj().T @ k_scattered.ravel()),
        },
        "physics_model/g_factor": {
            "maps": maps,
            "psi": psi,
            "reduction": np.array(reduction),
            "expected": g_by_variances(maps, psi, reduction),
        },
        "solvers/cg_hermitian": {
            "matrix": hermitian,
            "rhs": rhs,
            "expected": np.linalg.solve(hermitian, rhs),
            "steps": krylov,
            "residuals": residuals,
        },
        "solvers/iterative_sense": solver_inputs
        | {
            "expected": grid(np.linalg.solve(regular, back)),
            "steps": grid(early),
            "residuals": early_residuals,
        },
        "solvers/unfold_direct": solver_inputs
        | {
            "expected": grid(np.linalg.solve(regular, back)),
            "expected_unregularised": grid(np.linalg.solve(normal, back)),
        },
        "visualization/show_gmap": {"g": 1 + rng.exponential(size=(height, width))},
        "visualization/show_recon": {"images": gaussian(coils - 1, height, width)},
        "visualization/residual_plot": {"residuals": np.exp(-np.arange(height) + rng.normal(size=height))},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=TASK)
    out = parser.parse_args().out
    reference = out / "evaluation" / "reference_outputs"
    for folder in (out / "data", reference):
        folder.mkdir(parents=True, exist_ok=True)

    public, private = acquire()
    np.savez_compressed(out / "data" / "raw_data.npz", **public)
    (out / "data" / "meta_data.json").write_text(json.dumps(META, indent=2) + "\n")
    np.save(reference / "ground_truth.npy", private["truth"])
    np.save(reference / "support.npy", private["support"])

    from main import reconstruct

    image = reconstruct(str(out / "data"))["image"]
    np.save(reference / "reconstruction.npy", image)
    (reference / "metrics.json").write_text(json.dumps(figures(image, **private), indent=2) + "\n")
    for folder, seed, sizes in (("fixtures", 1, VISIBLE), ("fixtures_hidden", 2, HIDDEN)):
        for name, arrays in fixtures(np.random.default_rng(seed), public, **sizes).items():
            path = out / "evaluation" / folder / f"{name}.npz"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main()
