"""Makes a folder from which `run --wheels` works on a machine without network or compiler."""

import base64
import hashlib
import zipfile
from pathlib import Path

from environment import GGML_VARIANTS, KT_KERNEL, LLAMA_CPP_PYTHON, NUMPY, pip

# Newest first; pip takes a wheel that matches any of them.
PLATFORMS = ("manylinux_2_35_x86_64", "manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64",
             "manylinux2014_x86_64")


def pack(environment, folder, python_version):
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for package in (NUMPY, KT_KERNEL):
        download(package, folder, python_version)
    for wheel in folder.glob("kt_kernel-*.whl"):
        keep_kernels_only(wheel)
    environment.build_ggml(list(GGML_VARIANTS), folder / f"ggml-{LLAMA_CPP_PYTHON[1]}")


def download(package, folder, python_version):
    name, version = package
    platforms = [word for each in PLATFORMS for word in ("--platform", each)]
    pip(["download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version", python_version,
         "--implementation", "cp", *platforms, "--dest", str(folder), f"{name}=={version}"],
        f"downloading {name} {version}")


def keep_kernels_only(wheel):
    """Drops what a GPU or a command line needs from kt-kernel's wheel: 100 MB become 14."""
    kept = ("kt_kernel/_", "kt_kernel.libs/")
    with zipfile.ZipFile(wheel) as whole:
        names = [name for name in whole.namelist() if name.startswith(kept)]
        info = next(name for name in whole.namelist() if name.endswith(".dist-info/METADATA")).split("/")[0]
        contents = {name: whole.read(name) for name in [*names, f"{info}/METADATA", f"{info}/WHEEL"]}
    lines = [f"{name},sha256={digest(content)},{len(content)}" for name, content in contents.items()]
    contents[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as slim:
        for name, content in contents.items():
            slim.writestr(name, content)


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
