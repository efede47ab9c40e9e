sales <- data.frame(region = c("N", "S", "N", "E"), units = c(10, 4, 7, NA), price = c(2.5, 2.5, 11, 11))
sales
# %%
summary(sales$units)
# %%
sales$revenue <- sales$units * sales$price
aggregate(revenue ~ region, data = sales, FUN = sum)
# %%
sales$nope
# %%
sales[["missing", exact = TRUE]][5, 6]
# %%
str(sales)
# %%
write.csv(sales, "sales.csv", row.names = FALSE)
cat(readLines("sales.csv"), sep = "\n")
# %%
tapply(sales$units, sales$region, mean, na.rm = TRUE)
