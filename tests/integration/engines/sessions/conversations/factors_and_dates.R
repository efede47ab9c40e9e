f <- factor(c("lo", "hi", "lo"), levels = c("lo", "hi"))
print(f)
table(f)
# %%
as.Date("2024-02-28") + 0:2
# %%
format(as.Date("2024-03-01"), "%d.%m.%Y")
# %%
as.Date("nonsense")
# %%
difftime(as.Date("2024-03-01"), as.Date("2024-02-01"), units = "days")
# %%
quantile(c(1, 5, 2, 8, 4))
# %%
TRUE && NA
