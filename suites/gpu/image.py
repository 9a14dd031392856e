"""A container image with a CUDA program and the C library, and nothing of the driver."""

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

from hack.cluster import images
from hack.libraries import libraries_of

__all__ = ["NAME", "write_image"]

NAME = "me/compute:1"
PROGRAM = r"""
#include <cstdio>
#include <cuda_runtime.h>
__global__ void add(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += i;
}
int main() {
  int devices = 0, n = 1 << 20;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    printf("devices 0\n");
    return 3;
  }
  cudaDeviceProp found;
  cudaGetDeviceProperties(&found, 0);
  float *x, last = 0;
  cudaMalloc(&x, n * sizeof(float));
  cudaMemset(x, 0, n * sizeof(float));
  add<<<(n + 255) / 256, 256>>>(x, n);
  cudaMemcpy(&last, x + n - 1, sizeof(float), cudaMemcpyDeviceToHost);
  printf("devices %d %s last %.0f: %s\n", devices, found.name, last,
         cudaGetErrorString(cudaGetLastError()));
  return last == n - 1 ? 0 : 1;
}
"""


def write_image(directory: Path) -> Path:
    """Compile the program, and write an archive of an image as `docker save` does.

    Args:
        directory: For the archive and what it is made of.
    """
    source, program = directory / "compute.cu", directory / "compute"
    source.write_text(PROGRAM)
    compile_it = ["nvcc", "-cudart", "static", "-O2", "-o", str(program), str(source)]
    subprocess.run(compile_it, check=True)
    shell, smi = shutil.which("sh"), shutil.which("nvidia-smi")
    assert shell is not None
    assert smi is not None
    programs = {"bin/compute": program, "bin/sh": Path(shell)}
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name, path in programs.items():
            tar.add(path.resolve(), name)
        for library in libraries_of([*programs.values(), smi]):
            tar.add(library.resolve(), str(library).lstrip("/"))
    archive = directory / "image.tar"
    config = {"Entrypoint": ["/bin/compute"], "Env": ["PATH=/bin"]}
    images.write_image(archive, NAME, layer.getvalue(), config)
    return archive
