"""Pulls the base images of docker-compose.yml and writes them with their digests to .env, which Compose reads.

A tag can be moved to another image; a digest is the hash of the image, and the engine refuses an image with another
one.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DEFAULT = re.compile(r"\$\{([A-Z]+_IMAGE):-([^}]+)\}")


class PinError(Exception):
    """An image has no digest, or cannot be pulled; the message states which."""


def pinned(image: str) -> str:
    """Pull an image and return its name with the digest of the registry.

    Raises:
        PinError: If the engine cannot pull it, or has no digest of it.
    """
    _docker("pull", "--quiet", image)
    digests = json.loads(_docker("image", "inspect", "--format", "{{json .RepoDigests}}", image))
    repository = image.rpartition(":")[0]
    digest = next((name.partition("@")[2] for name in digests if name.partition("@")[0].endswith(repository)), None)
    if digest is None:
        raise PinError(f"{image} has no digest: it was built or imported here, not pulled from a registry")
    return f"{image}@{digest}"


def write_pins(pins: dict[str, str], path: Path) -> None:
    """Write variables to an environment file; its other lines stay."""
    lines = path.read_text().splitlines() if path.exists() else []
    others = [line for line in lines if line.partition("=")[0].strip() not in pins]
    path.write_text("\n".join([*others, *(f"{name}={image}" for name, image in pins.items())]) + "\n")


def main() -> int:
    """Pin every image that the files of Compose name; print each with its digest."""
    images = dict(DEFAULT.findall((ROOT / "docker-compose.yml").read_text()))
    try:
        pins = {name: pinned(image) for name, image in sorted(images.items())}
    except PinError as error:
        print(f"pin-images: {error}", file=sys.stderr)
        return 1
    write_pins(pins, ROOT / ".env")
    for name, image in pins.items():
        print(f"{name}={image}")
    return 0


def _docker(*arguments: str) -> str:
    docker = shutil.which("docker")
    if docker is None:
        raise PinError("a Docker engine is needed: https://docs.docker.com/engine/install")
    command = [docker, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - names from our own file
    if done.returncode != 0:
        raise PinError(f"docker {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
