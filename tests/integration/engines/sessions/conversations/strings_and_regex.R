words <- c("apple", "Banana", "cherry")
toupper(words)
# %%
sub("a", "A", words); nchar(words)
# %%
regmatches("a1b22", gregexpr("[0-9]+", "a1b22"))
# %%
sprintf("%-8s|%5.2f", words, c(1, 2.5, 3))
# %%
paste(rev(strsplit("hello", "")[[1]]), collapse = "")
# %%
"Größe – 数据"
# %%
strsplit(5, "a")
