"""Builds the wheel: the package, its ctypes declarations, the library and the shared libraries that it needs.

    python3 wheel.py LIBWEFT.so STAGE_DIR WHEEL_DIR    what `make python` runs

It is also the build backend of pyproject.toml (PEP 517), which runs `make python` above this folder first. One wheel
serves every Python 3: the library knows nothing of Python.
"""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
# What every Linux of that glibc has (PEP 600).
SYSTEM = r"(linux-vdso|ld-linux.*|libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+)\.so"
METADATA = """Metadata-Version: 2.1
Name: weft
Version: {version}
Summary: The communication of distributed training programs, made cheap and proved correct
License: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: numpy
"""


def version():
    with open(os.path.join(ROOT, "Makefile")) as file:
        return re.search(r"^VERSION := (\S+)", file.read(), re.M)[1]


def platform_tag():
    glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1].replace(".", "_")
    return f"manylinux_{glibc}_{sysconfig.get_platform().split('-')[-1].replace('-', '_')}"


def needed(library):
    """Paths of the shared libraries that are not part of every system, found as the linker does."""
    listing = subprocess.run(["ldd", library], check=True, capture_output=True, text=True).stdout
    for name, path in re.findall(r"^\s*(\S+)(?: => (\S+))? \(", listing, re.M):
        if path and not re.match(SYSTEM, os.path.basename(name)):
            yield path


def stage(library, folder):
    """Lays the package out in `folder`, ready to import."""
    sys.path.insert(0, HERE)
    import declare

    package = os.path.join(folder, "weft")
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(os.path.join(HERE, "weft"), package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(os.path.join(ROOT, "configs"), os.path.join(package, "configs"))
    with open(os.path.join(package, "_abi.py"), "w") as file:
        file.write(declare.generate(os.path.join(ROOT, "include")))
    shutil.copy(library, os.path.join(package, "libweft.so"))
    os.makedirs(os.path.join(package, "libs"))
    for path in needed(library):
        shutil.copy(path, os.path.join(package, "libs"))


def files_below(folder):
    for where, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(where, name)
            yield os.path.relpath(path, folder), path


def pack(folder, wheels):
    """The wheel of a staged package; its file's name."""
    info, tag = f"weft-{version()}.dist-info", f"py3-none-{platform_tag()}"
    name = f"weft-{version()}-{tag}.whl"
    made = {
        "METADATA": METADATA.format(version=version()),
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: weft\nRoot-Is-Purelib: false\nTag: {tag}\n",
    }
    os.makedirs(wheels, exist_ok=True)
    record = []
    with zipfile.ZipFile(os.path.join(wheels, name), "w", zipfile.ZIP_DEFLATED) as archive:

        def put(path, data):
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(data)}\n")
            archive.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)

        for path, real in files_below(os.path.join(folder, "weft")):
            if "__pycache__" in path:
                continue
            with open(real, "rb") as file:
                put(f"weft/{path}", file.read())
        for path, data in made.items():
            put(f"{info}/{path}", data.encode())
        archive.writestr(f"{info}/RECORD", "".join(record) + f"{info}/RECORD,,\n")
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517: called by pip."""
    command = ["make", f"-j{os.cpu_count() or 1}", "--no-print-directory", "python", f"WHEELS={os.path.abspath(wheel_directory)}"]
    subprocess.run(command, cwd=ROOT, check=True)
    return f"weft-{version()}-py3-none-{platform_tag()}.whl"


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("weft: a source archive of the package alone cannot be built: the library is in the folder above")


if __name__ == "__main__":
    given_library, given_folder, given_wheels = sys.argv[1:]
    stage(given_library, given_folder)
    print(os.path.join(given_wheels, pack(given_folder, given_wheels)))
