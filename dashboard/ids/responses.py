"""The sampled responses of a run."""

from typing import Final

FROM: Final = "responses-from"
SPREAD: Final = "responses-spread"
SPREAD_CARD: Final = "responses-spread-card"
SPREAD_OF: Final = "responses-spread-of"
STEP: Final = "responses-step"
TO: Final = "responses-to"
CORRECT: Final = "responses-correct"
QUESTIONS: Final = "responses-questions"
QUESTIONS_DRAW: Final = "responses-questions-draw"
ORDER: Final = "responses-order"
MEASURE: Final = "responses-measure"
KIND: Final = "responses-kind"
GONE: Final = "responses-gone"
LIST: Final = "responses-list"
