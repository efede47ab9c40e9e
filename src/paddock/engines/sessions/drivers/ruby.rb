# The driver of sessions of Ruby: it evaluates each text in one binding, so that local variables stay. It reads requests
# from descriptor 3 and answers with frames: four bytes of length (little-endian) and JSON.
require "json"
require "tempfile"

$stdout.sync = true
main = TOPLEVEL_BINDING

driver = Object.new
driver.instance_eval do
  @channel = IO.for_fd(3, "r+b", autoclose: false)
  @channel.sync = true
  @channel.close_on_exec = true
  @terminal = $stdout.dup
  @terminal.sync = true
  @terminal.close_on_exec = true
  @main = main
  @pid = Process.pid
end

def driver.send_frame(message)
  body = JSON.generate(message).b
  @channel.write([body.bytesize].pack("V") + body)
end

def driver.serve
  send_frame({ ready: true })
  while (head = @channel.read(4))
    request = JSON.parse(@channel.read(head.unpack1("V")))
    ending = execute(request["code"], request["number"], request["stdin"])
    exit!(ending[:exit_code]) if Process.pid != @pid
    send_frame({ done: ending })
  end
end

def driver.execute(code, number, input)
  give_input(input)
  trap("INT") { raise Interrupt, "" }
  value = @main.eval(code, "In [#{number}]", 1)
  show(value) unless value.nil?
  { exit_code: 0 }
rescue SystemExit => error
  error.status == 0 ? { exit_code: 0 } : { exit_code: error.status & 255, error: { name: "SystemExit", message: error.status.to_s } }
rescue Exception => error
  explain(error)
ensure
  trap("INT") {}
end

def driver.give_input(text)
  file = Tempfile.new("stdin")
  file.unlink
  file.binmode.write((text || "").encode("ISO-8859-1")) # each character is a byte
  file.rewind
  $stdin.reopen(file)
  file.close
end

def driver.show(value)
  text = value.inspect.encode("UTF-8", invalid: :replace, undef: :replace)[0, 262_144]
  @terminal.write(text + "\n")
  send_frame({ display: { "text/plain" => text } })
end

def driver.explain(error)
  trace = (error.backtrace || []).select { |line| line.start_with?("In [") }
  message = error.message.to_s.encode("UTF-8", invalid: :replace, undef: :replace)
  first = trace.first ? "#{trace.first}: " : ""
  $stderr.write(["#{first}#{message} (#{error.class})", *trace.drop(1).map { |line| "\tfrom #{line}" }].join("\n") + "\n")
  place = trace.first || message
  line = place[/In \[\d+\]:(\d+)/, 1]
  { exit_code: 1, error: { name: error.class.to_s[0, 100], message: message[0, 2000], line: line && line.to_i } }
end

Kernel.define_method(:display_value) { |value| driver.show(value) }
driver.serve
