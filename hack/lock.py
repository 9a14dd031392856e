"""Pin the project's dependencies: requirements/run.txt and requirements/dev.txt.

Needs `uv` on the PATH (any version; only its resolver is used). The files contain only versions, no
address of a package index.
"""

import subprocess

COMMON = [
    "--universal",
    "--python-version",
    "3.11",
    "--no-emit-index-url",
    "--no-header",
    "--quiet",
]

for output, extra in (("run", []), ("dev", ["--group", "dev"])):
    subprocess.run(
        [
            "uv",
            "pip",
            "compile",
            *COMMON,
            *extra,
            "pyproject.toml",
            "-o",
            f"requirements/{output}.txt",
        ],
        check=True,
    )
