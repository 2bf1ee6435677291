"""Build the optional compiled kernel; everything else is declared in pyproject.toml.

The extension is optional: without a C compiler the install succeeds and the twin in Python serves. With KAVKA_PURE=1
none is built, and the wheel is for every platform.
"""

import os
from glob import glob

from setuptools import Extension, setup

KERNEL = Extension(
    "kavka.wire.records._kernel",
    ["src/kavka/wire/records/_kernel.pyx"],
    depends=sorted(glob("src/kavka/wire/records/_kernel_parts/*.pxi")),
    optional=not os.environ.get("CIBUILDWHEEL"),  # a wheel for a platform has it, or is not built
    extra_compile_args=["-O3"],
)

setup(ext_modules=[] if os.environ.get("KAVKA_PURE") else [KERNEL])
