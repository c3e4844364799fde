"""The type checker of the second pass: beartype, for which an int is a float as for everybody."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
