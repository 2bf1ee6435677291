"""Build the optional compiled kernel; everything else is declared in pyproject.toml.

The extension is optional: without a C compiler the install succeeds and the twin in Python serves.
"""

from glob import glob

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "kavka.wire.records._kernel",
            ["src/kavka/wire/records/_kernel.pyx"],
            depends=sorted(glob("src/kavka/wire/records/_kernel_parts/*.pxi")),
            optional=True,
            extra_compile_args=["-O3"],
        )
    ]
)
