"""The frame that all experiments share: run, judge, compare, write down, publish."""
