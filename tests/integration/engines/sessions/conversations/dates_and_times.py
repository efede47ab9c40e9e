from datetime import date, datetime, timedelta, timezone
d = date(2024, 2, 28)
[d + timedelta(days=n) for n in range(3)]
# %%
datetime(2024, 5, 1, 12, tzinfo=timezone.utc).isoformat(), (date(2025, 1, 1) - d).days
# %%
datetime.strptime("2024-13-01", "%Y-%m-%d")
# %%
import calendar
print(calendar.month(2024, 2))
# %%
import pandas as pd
pd.date_range("2024-01-31", periods=4, freq="ME").strftime("%d %b").tolist()
# %%
stamps = pd.Series(pd.to_datetime(["2024-01-01 10:00", "2024-06-30 23:59"])).dt.tz_localize("UTC")
stamps, stamps.dt.day_name().tolist()
# %%
pd.Timestamp("2024-01-01"), pd.Timedelta("1D 2h"), pd.NaT, pd.Period("2024Q1")
