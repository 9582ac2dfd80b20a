"""The obvious weak method: CG-SENSE that trusts every receiver channel equally.

imaging101-canary-264fd045-2a38-4228-b180-dad0a20e427c
"""

import os

import numpy as np
from scipy.interpolate import RectBivariateSpline

ITERATIONS = 150


def fourier(image, transform):
    axes = (-2, -1)
    return np.fft.fftshift(transform(np.fft.ifftshift(image, axes=axes), norm="ortho"), axes=axes)


def main():
    with np.load("data/raw_data.npz") as stored:
        k_space, rows = stored["k_space"].astype(complex), stored["rows"]
        nodes, coarse = stored["node_positions"], stored["coil_maps"]
    pixels = np.arange(k_space.shape[-1])
    maps = np.stack(
        [
            RectBivariateSpline(nodes, nodes, coil.real)(pixels, pixels)
            + 1j * RectBivariateSpline(nodes, nodes, coil.imag)(pixels, pixels)
            for coil in coarse
        ]
    )
    acquired = np.zeros((len(pixels), 1))
    acquired[rows] = 1
    full = np.zeros(maps.shape, dtype=complex)
    full[:, rows] = k_space

    def back(spectrum):
        return np.sum(maps.conj() * fourier(spectrum, np.fft.ifft2), axis=0)

    image = np.zeros(maps.shape[1:], dtype=complex)
    residual = back(full)
    direction = residual
    energy = np.vdot(residual, residual).real
    for _ in range(ITERATIONS):
        normal = back(acquired * fourier(maps * direction, np.fft.fft2))
        step = energy / np.vdot(direction, normal).real
        image = image + step * direction
        residual = residual - step * normal
        previous, energy = energy, np.vdot(residual, residual).real
        direction = residual + energy / previous * direction
    os.makedirs("output", exist_ok=True)
    np.save("output/reconstruction.npy", image)


if __name__ == "__main__":
    main()
