"""Files of points with their records and ids: read, matched, and written as picks."""

from tellmost.records.array_files import read_array_files
from tellmost.records.features import match_features
from tellmost.records.labels import read_labels
from tellmost.records.matching import match_ids, read_observed
from tellmost.records.picks import check_picks_path, pick_rows, write_picks
from tellmost.records.reading import column_names, read_records
from tellmost.records.records import Records
from tellmost.selecting.replay import nearest_targets

__all__ = [
    "Records",
    "check_picks_path",
    "column_names",
    "match_features",
    "match_ids",
    "nearest_targets",
    "pick_rows",
    "read_array_files",
    "read_labels",
    "read_observed",
    "read_records",
    "write_picks",
]
