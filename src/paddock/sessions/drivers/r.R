# The driver of sessions of R: it evaluates each text in the global environment and prints visible values, as R's own
# prompt does. It reads requests from standard input, and writes frames to a pipe that leads to the channel: four bytes of
# length (little-endian) and JSON, or a plot.
local({
  frames <- suppressWarnings(file(file.path(Sys.getenv("TMPDIR"), "frames"), "wb"))
  requests <- file("stdin", "rb")
  plots <- file.path(tempdir(), "plots")
  dir.create(plots)

  send <- function(body) {
    if (is.character(body)) body <- charToRaw(body)
    writeBin(length(body), frames, size = 4L, endian = "little")
    writeBin(body, frames)
    flush(frames)
  }
  quote_json <- function(text) {
    text <- enc2utf8(text)
    for (pair in list(c("\\", "\\\\"), c("\"", "\\\""), c("\n", "\\n"), c("\r", "\\r"), c("\t", "\\t")))
      text <- gsub(pair[1], pair[2], text, fixed = TRUE)
    paste0("\"", gsub("[[:cntrl:]]", " ", text), "\"")
  }
  finish <- function(code, name = "", message = "") {
    error <- if (nzchar(name)) sprintf(",\"error\":{\"name\":%s,\"message\":%s}", quote_json(name), quote_json(message)) else ""
    send(sprintf("{\"done\":{\"exit_code\":%d%s}}", code, error))
  }
  read_line <- function() {
    line <- raw()
    repeat {
      byte <- readBin(requests, "raw", 1L)
      if (!length(byte)) quit("no")
      if (byte == as.raw(10L)) return(rawToChar(line))
      line <- c(line, byte)
    }
  }
  read_bytes <- function(count) {
    data <- raw()
    while (length(data) < count) data <- c(data, readBin(requests, "raw", count - length(data)))
    data
  }
  show_plots <- function() {
    graphics.off()
    for (file in sort(list.files(plots, full.names = TRUE))) {
      send(c(charToRaw("image/png\n"), readBin(file, "raw", file.size(file))))
      unlink(file)
    }
  }
  options(
    device = function() grDevices::png(file.path(plots, "plot%06d.png"), width = 7, height = 7, units = "in", res = 120),
    warn = 1
  )

  evaluate <- function(code) {
    for (expression in parse(text = code, keep.source = TRUE)) {
      shown <- withVisible(eval(expression, globalenv()))
      if (shown$visible) print(shown$value)
    }
  }
  execute <- function(code) {
    tryCatch(
      {
        evaluate(code)
        show_plots()
        finish(0L)
      },
      error = function(error) {
        show_plots()
        call <- conditionCall(error)
        message <- conditionMessage(error)
        inside <- if (is.null(call) || inherits(error, "parseError")) "" else paste0(" in ", deparse(call)[1])
        if (startsWith(inside, " in parse(") || startsWith(inside, " in eval(")) inside <- ""
        writeLines(paste0("Error", inside, ": ", message), stdout())
        finish(1L, "Error", message)
      },
      interrupt = function(condition) {
        graphics.off()
        unlink(list.files(plots, full.names = TRUE))
        finish(1L, "Interrupt")
      }
    )
  }
  send("{\"ready\":true}")
  repeat {
    head <- as.integer(strsplit(read_line(), " ", fixed = TRUE)[[1]])
    code <- rawToChar(read_bytes(head[2]))
    Encoding(code) <- "UTF-8"
    execute(code)
  }
})
