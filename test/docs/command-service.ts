/**
 * Runs the commands of a page in the page's own process. A page calls `signalbox` up to seventy times, and starting Node
 * and loading the sources takes ten times as long as most commands do. `commands/signalbox` asks here by `curl`; commands
 * that start a process, take signals or draw on a terminal are started as processes.
 */
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { createPrinter } from '../../src/cli/print.ts'
import { run } from '../../src/cli/run.ts'

/** Listens in the page's folder until the process ends. A request is a list of strings, each ended by NUL. */
export async function startCommandService(): Promise<void> {
  let last: Promise<unknown> = Promise.resolve()
  const server = createServer(async (request, reply) => {
    const parts = (await buffer(request)).toString().split('\0').slice(0, -1)
    // One after the other: the environment and the working directory belong to the whole process.
    const answer = last.then(() => runCommand(parts))
    last = answer.catch(() => {})
    reply.end(await answer.then(String, (error: Error) => error.stack))
  })
  await new Promise<void>((resolve) => server.listen(join(process.cwd(), '.commands'), resolve))
  server.unref()
}

/** Runs `[output, folder, variables…, '', arguments…]`; its output goes to the files `<output>.out` and `<output>.err`. */
async function runCommand([output, folder, ...rest]: readonly string[]): Promise<number> {
  const end = rest.indexOf('')
  const variables = rest
    .slice(0, end)
    .map((each) => [each.split('=', 1)[0]!, each.slice(each.indexOf('=') + 1)])
  const home = process.cwd()
  const own = { ...process.env }
  const said = { out: '', err: '' }
  const printer = createPrinter(
    { write: (text) => (said.out += text) },
    { write: (text) => (said.err += text) },
  )
  for (const name of Object.keys(own)) if (name.startsWith('SIGNALBOX_')) delete process.env[name]
  Object.assign(process.env, Object.fromEntries(variables))
  process.chdir(folder!)
  try {
    return await run(rest.slice(end + 1), printer)
  } finally {
    process.chdir(home)
    for (const [name] of variables) delete process.env[name!]
    Object.assign(process.env, own)
    writeFileSync(`${output}.out`, said.out)
    writeFileSync(`${output}.err`, said.err)
  }
}
