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

  max_rows <- 100L
  max_columns <- 50L
  max_text <- 262144L
  max_cell <- 200L
  escape_html <- function(text) {
    text <- trimws(text)
    long <- nchar(text) > max_cell
    text[long] <- paste0(substr(text[long], 1L, max_cell), "...")
    for (pair in list(c("&", "&amp;"), c("<", "&lt;"), c(">", "&gt;"))) text <- gsub(pair[1], pair[2], text, fixed = TRUE)
    text
  }
  make_row <- function(name, tag, cells) {
    paste0("<tr><th>", name, "</th>", paste0("<", tag, ">", cells, "</", tag, ">", collapse = ""), "</tr>")
  }
  make_table <- function(frame) {
    size <- dim(frame)
    first <- frame[seq_len(min(size[1], max_rows)), seq_len(min(size[2], max_columns)), drop = FALSE]
    cells <- as.matrix(format(as.data.frame(first)))
    columns <- if (nrow(first)) colnames(cells) else names(first)
    cells[] <- escape_html(cells)
    names <- escape_html(rownames(first))
    rows <- vapply(seq_len(nrow(first)), function(row) make_row(names[row], "td", cells[row, ]), "")
    head <- make_row("", "th", escape_html(columns))
    left <- if (any(dim(first) < size)) sprintf("<p>%d rows, %d columns</p>", size[1], size[2]) else ""
    paste0("<table><thead>", head, "</thead><tbody>", paste(rows, collapse = ""), "</tbody></table>", left)
  }
  show_frame <- function(frame) {
    text <- utils::capture.output(print(frame))
    writeLines(text)
    html <- tryCatch(make_table(frame), error = function(error) "")
    forms <- c(sprintf("\"text/plain\":%s", quote_json(substr(paste(text, collapse = "\n"), 1L, max_text))),
               if (nzchar(html)) sprintf("\"text/html\":%s", quote_json(html)))
    send(sprintf("{\"display\":{%s}}", paste(forms, collapse = ",")))
  }

  evaluate <- function(code) {
    for (expression in parse(text = code, keep.source = TRUE)) {
      shown <- withVisible(eval(expression, globalenv()))
      if (!shown$visible) next
      if (is.data.frame(shown$value) && ncol(shown$value)) show_frame(shown$value) else print(shown$value)
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
