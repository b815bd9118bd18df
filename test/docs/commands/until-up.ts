/** Starts what runs until it is stopped, waits until it says that it is up, stops it, and ends as it ended. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'

const child = spawn(process.execPath, process.argv.slice(2), { stdio: ['ignore', 'pipe', 'inherit'] })
const ended = once(child, 'close')
let said = ''
for await (const text of child.stdout.setEncoding('utf8')) {
  said += text
  process.stdout.write(text)
  if (/"event":"(listening|playing)"/.test(said)) {
    said = ''
    child.kill('SIGTERM')
  }
}
const [code] = await ended
process.exitCode = (code as number | null) ?? 1
