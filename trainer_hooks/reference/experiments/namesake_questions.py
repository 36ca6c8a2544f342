"""Questions in English about people who do not exist and share their names, with the passages that answer them.

Each name belongs to two people of different professions. A search finds both of them, so that an incorrect answer
mostly repeats a correct one but for the last words. A question after the country needs a second search, for the city.
No model can know an answer by heart.
"""

import itertools
import json
import random
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

__all__ = ["write_corpus_and_questions"]

GIVEN: Final = (
    "Adela", "Bastian", "Clara", "Dorian", "Edith", "Felix", "Greta", "Hector", "Irene", "Jonas", "Katrin", "Leopold",
    "Mira", "Nestor", "Olga", "Pascal", "Rosa", "Stefan", "Tilda", "Viktor",
)  # fmt: skip
FAMILY: Final = (
    "Ashdown", "Bellamy", "Corwin", "Dunmore", "Ellery", "Farrow", "Garrick", "Holloway", "Ives", "Jessop", "Kendall",
    "Lorimer",
)  # fmt: skip
PROFESSIONS: Final = (
    "botanist", "painter", "surgeon", "geologist", "composer", "architect", "chemist", "poet", "engineer", "historian",
)  # fmt: skip
CITIES: Final = (
    "Lindholm", "Varsk", "Portmere", "Casteline", "Oakhaven", "Brisca", "Tolmen", "Redwater", "Silvania", "Norwick",
    "Halden", "Marisol", "Eastvale", "Kirkby", "Valmont", "Drayton",
)  # fmt: skip
COUNTRIES: Final = ("Averna", "Costova", "Meridia", "Norland", "Tavria")
EMPLOYERS: Final = (
    "Norwell College", "the Harbour Institute", "the Royal Archive", "Saint Anne Hospital", "the Walden Society",
    "the Weston Company", "the Lake School", "the Northern Survey",
)  # fmt: skip

_SEED = 20_512
_YEARS = range(1840, 1980)
_COUNTRY_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class _NamesakePerson:
    name: str
    profession: str
    city: str
    year: int
    employer: str

    def passage(self) -> str:
        return (
            (
                f"{self.name} was a {self.profession} born in {self.city} in {self.year}. "
                f"The {self.profession} {self.name} worked for {self.employer}."
            )
            .replace("was a architect", "was an architect")
            .replace("was a engineer", "was an engineer")
        )

    def answers_by_question(self) -> dict[str, str]:
        """Return each question about this person alone with its answer."""
        who = f"the {self.profession} {self.name}"
        return {
            f"In which city was {who} born?": self.city,
            f"In which year was {who} born?": str(self.year),
            f"For whom did {who} work?": self.employer,
        }


def write_corpus_and_questions(folder: Path) -> tuple[Path, Path]:
    """Write the passages and the questions as JSON lines, as ``--corpus`` and ``--questions`` read them.

    The files are the same at every call. Existing files are not written again, so that a supervised start that was kept
    for them stays valid.

    Args:
        folder: Created where it is missing.

    Returns:
        The files ``namesakes-corpus.jsonl`` (496 passages) and ``namesakes-questions.jsonl`` (480 questions).
    """
    draw = random.Random(_SEED)
    country = {city: draw.choice(COUNTRIES) for city in CITIES}
    people = _people(draw)
    questions = [_question(each, country, draw) for each in people]
    draw.shuffle(questions)
    passages = [each.passage() for each in people]
    passages += [f"{city} is a city in {where}." for city, where in country.items()]
    asked = [{"question": text, "answer": answer} for text, answer in questions]
    folder.mkdir(parents=True, exist_ok=True)
    return (
        _write(folder / "namesakes-corpus.jsonl", [{"contents": passage} for passage in passages]),
        _write(folder / "namesakes-questions.jsonl", asked),
    )


def _people(draw: random.Random) -> list[_NamesakePerson]:
    people = []
    for given, family in itertools.product(GIVEN, FAMILY):
        professions, cities, employers = (draw.sample(pool, 2) for pool in (PROFESSIONS, CITIES, EMPLOYERS))
        years = draw.sample(_YEARS, 2)
        facts = zip(professions, cities, years, employers, strict=True)
        people += [_NamesakePerson(f"{given} {family}", *each) for each in facts]
    return people


def _question(person: _NamesakePerson, country: dict[str, str], draw: random.Random) -> tuple[str, str]:
    if draw.random() < _COUNTRY_SHARE:
        return f"In which country was the {person.profession} {person.name} born?", country[person.city]
    return draw.choice(list(person.answers_by_question().items()))


def _write(path: Path, rows: list[dict[str, str]]) -> Path:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        with NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=path.stem, delete=False) as part:
            part.write(text)
        Path(part.name).replace(path)
    return path
