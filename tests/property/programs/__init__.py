"""Random programs: their steps, their generators, their checks, and how a finding is made small."""
