# SPDX-License-Identifier: Apache-2.0
"""digests.py FOLDER [make]: what a wheel computes, to be held against another machine's.

With `make` writes mechanisms into FOLDER. Prints a digest of the rows of each, which all machines share to the last bit, and a loss
that went through LAPACK, to as many digits as they share.
"""

import hashlib
import pathlib
import sys

import dpmf

FAMILIES = {"toeplitz": {}, "bsr": {"bands": 5}, "bisr": {"bands": 5}, "tree-online": {}, "identity": {}}


def main(folder, make):
    for family, options in FAMILIES.items():
        path = folder / (family + ".dpmf")
        if make:
            dpmf.evaluate(family, 20, sigma=1.0, **options).save(path)
        with dpmf.load(path).noise(
            1000, clip_norm=1.0, key=dpmf.testing_key(1), state=dpmf.NO_STATE
        ) as noise:
            print(family, hashlib.sha256(b"".join(noise.next().tobytes() for _ in range(20))).hexdigest())
    dense = dpmf.optimize("dense", 40, "momentum:0.9", participation="cyclic:4,10", epsilon=8, delta=1e-5)
    print("dense %.9g, sigma %.9g" % (dense.rms_loss, dense.sigma))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), "make" in sys.argv[2:])
