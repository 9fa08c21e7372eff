"""Where peers come from: pinned packages from PyPI (or from a carried folder), unpacked into one folder that can be deleted.

Nothing is installed into the Python that runs this: `pip --target` unpacks each package into a folder of its own, and
only the workers see it.
"""

import importlib.util
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

NUMPY = ("numpy", "2.2.6")
KT_KERNEL = ("kt-kernel", "0.7.2")
LLAMA_CPP_PYTHON = ("llama-cpp-python", "0.3.36")

# ggml's CPU variants that are worth building, worst first, with the flags in /proc/cpuinfo that each needs.
_AVX2 = "avx2 fma f16c bmi2"
_AVX512 = f"{_AVX2} avx512f avx512cd avx512vl avx512dq avx512bw"
GGML_VARIANTS = {
    "haswell": _AVX2,
    "alderlake": f"{_AVX2} avx_vnni",
    "skylakex": _AVX512,
    "icelake": f"{_AVX512} avx512vbmi avx512_vnni",
    "zen4": f"{_AVX512} avx512vbmi avx512_vnni avx512_bf16",
    "sapphirerapids": f"{_AVX512} avx512vbmi avx512_vnni avx512_bf16 amx_tile amx_int8",
}
BUILD_SECONDS = 1800
PIP_SECONDS = 900


class Skipped(Exception):
    """Why a peer cannot be had here, and what would help."""

    def __init__(self, reason, remedy):
        super().__init__(f"{reason}; {remedy}")
        self.reason, self.remedy = reason, remedy


def cpu_flags():
    """The words of /proc/cpuinfo's first `flags` line; empty where there is none."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("flags"):
                return set(line.split(":", 1)[1].split())
    except OSError:
        pass
    return set()


def cpu_model():
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def require_avx2(peer):
    if not set(_AVX2.split()) <= cpu_flags():
        raise Skipped(f"{peer} needs a CPU with AVX2, FMA, F16C and BMI2 (got {cpu_model()})",
                      "run it on an x86-64 CPU that has them")


def best_ggml_variant():
    return [name for name, needed in GGML_VARIANTS.items() if set(needed.split()) <= cpu_flags()][-1]


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def call(command, what, remedy, seconds):
    """Runs a command quietly. Skipped: it fails, is missing or takes too long."""
    try:
        subprocess.run(command, check=True, timeout=seconds, text=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError as error:
        raise Skipped(f"{what} needs {command[0]} (got none)", remedy) from error
    except subprocess.TimeoutExpired as error:
        raise Skipped(f"{what} must end within {seconds} s (got more)", remedy) from error
    except subprocess.CalledProcessError as error:
        raise Skipped(f"{what} failed: {last_line(error.stderr or error.stdout)}", remedy) from error


def pip(arguments, what, remedy="connect to PyPI, or carry a folder made by --pack and name it with --wheels"):
    call([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments], what, remedy, PIP_SECONDS)


class Environment:
    """folder: what may be deleted at any time; wheels: a folder made by --pack, or None to ask PyPI."""

    def __init__(self, folder, wheels, say):
        self.folder, self.wheels, self.say = Path(folder).resolve(), wheels and Path(wheels).resolve(), say

    def package(self, package):
        """The folder that a package with binary wheels is unpacked in."""
        name, version = package
        target = self.folder / f"{name}-{version}-{sys.implementation.cache_tag}"
        if not (target / "complete").exists():
            self.say(f"installing {name} {version} into {target}")
            shutil.rmtree(target, ignore_errors=True)
            source = ["--no-index", "--find-links", str(self.wheels)] if self.wheels else []
            pip(["install", "--quiet", "--no-deps", "--only-binary=:all:", "--target", str(target), *source,
                 f"{name}=={version}"], f"installing {name} {version}")
            (target / "complete").touch()
        return target

    def numpy(self):
        """The folder of NumPy for the workers' PYTHONPATH; None where this Python has one already."""
        return None if importlib.util.find_spec("numpy") else self.package(NUMPY)

    def kt_kernel(self):
        require_avx2("kt-kernel")
        return self.package(KT_KERNEL)

    def ggml(self):
        """The folder with ggml's libraries for this CPU, from the sources that llama-cpp-python carries."""
        require_avx2("ggml")
        name = f"ggml-{LLAMA_CPP_PYTHON[1]}"
        if self.wheels:
            if not (self.wheels / name).is_dir():
                raise Skipped(f"the folder {self.wheels} must hold {name} (got none)", "make it with --pack")
            return self.wheels / name
        target = self.folder / name
        self.build_ggml([best_ggml_variant()], target)
        return target

    def build_ggml(self, variants, target):
        missing = [each for each in variants if not (target / f"libggml-cpu-{each}.so").exists()]
        if not missing:
            return
        if platform.machine() != "x86_64":
            raise Skipped(f"ggml is built here for x86_64 alone (got {platform.machine()})", "run it on such a machine")
        self.say(f"building ggml from llama-cpp-python {LLAMA_CPP_PYTHON[1]} for {', '.join(missing)}")
        build, generator = self.folder / "ggml-build", ["-G", "Ninja"] if shutil.which("ninja") else []
        remedy = "install cmake, ninja and a C++ compiler: ./dev setup"
        call(["cmake", "-S", str(Path(__file__).parent / "ggml"), "-B", str(build), *generator,
              f"-DGGML_SOURCE={self.ggml_sources()}"], "configuring ggml", remedy, BUILD_SECONDS)
        targets = ["ggml-base", *(f"ggml-cpu-{each}" for each in missing)]
        call(["nice", "cmake", "--build", str(build), "--parallel", "--target", *targets], "building ggml", remedy,
             BUILD_SECONDS)
        target.mkdir(parents=True, exist_ok=True)
        # The name without a version is what workers open; the libraries beside it look for the name with one.
        for pattern in ("libggml-base.so*", *(f"libggml-cpu-{each}.so" for each in missing)):
            for library in build.rglob(pattern):
                shutil.copy(library, target)

    def ggml_sources(self):
        """The folder of ggml in llama-cpp-python's source archive: PyPI has no wheel of it."""
        name, version = LLAMA_CPP_PYTHON
        downloads = self.folder / "downloads"
        root = downloads / f"llama_cpp_python-{version}"
        sources = root / "vendor" / "llama.cpp" / "ggml"
        if not (root / "complete").exists():
            pip(["download", "--quiet", "--no-deps", "--no-binary", name, "--dest", str(downloads),
                 f"{name}=={version}"], f"downloading {name} {version}")
            prefix = sources.relative_to(downloads).as_posix() + "/"
            with tarfile.open(downloads / f"llama_cpp_python-{version}.tar.gz") as archive:
                archive.extractall(downloads, [each for each in archive if each.name.startswith(prefix)])
            (root / "complete").touch()
        return sources
