import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { aptInstall } from './apt.ts'
import { binaryFolders, findBinary } from './binary.ts'
import { allowedSources, findSource, type Places } from './source.ts'

const places: Places<string> = {
  environment: () => process.env.SIGNALBOX_TEST_PROMTOOL || undefined,
  installed: () => findInstalled(),
  apt: async () => ((await aptInstall(['prometheus'])) ? findInstalled() : undefined),
  otherwise: 'no promtool: set SIGNALBOX_TEST_PROMTOOL=/path/to/promtool, or install prometheus',
}

function findInstalled(): string | undefined {
  return findBinary('promtool', binaryFolders(process.env))
}

/** Runs Prometheus's own tool with these arguments and this input. Returns all that it printed, and its exit code. */
export async function runPromtool(
  args: readonly string[],
  input = '',
): Promise<{ readonly code: number; readonly output: string }> {
  const { found } = await findSource(places, allowedSources(process.env))
  const child = spawn(found, args, { stdio: ['pipe', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  child.stdin.end(input)
  const [code] = await once(child, 'close')
  return { code: code as number, output }
}
