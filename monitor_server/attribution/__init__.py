"""What explains an alert: which signal moved first, which actions, responses and tokens carry it, and what helps.

Pure, like detection: numpy and the standard library, no clock, no store. It opens and closes no alert; it reads what is
there when somebody asks. What is missing is said to be not observed.
"""
