/** Whether the server in this container answers. 403: it does, and is known by other names than this one. */
const { SIGNALBOX_PORT: port = '7420' } = process.env
const { status } = await fetch(`http://127.0.0.1:${port}/livez`, { signal: AbortSignal.timeout(4_000) })
if (status !== 200 && status !== 403) {
  process.stderr.write(`/livez answered ${status}\n`)
  process.exitCode = 1
}

export {}
