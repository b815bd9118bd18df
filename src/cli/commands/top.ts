import { type Command, Option } from 'commander'
import { invalidArgument } from '../../core/errors.ts'
import type { Box, RemoteBox } from '../../index.ts'
import { resolveDatabase } from '../config/flags.ts'
import { nameOfDatabase, spanOf } from '../config/value-kinds.ts'
import { escapeText, type Printer } from '../print.ts'
import { type PaneName, paneNames } from '../top/pane.ts'
import type { CommandContext } from '../verbs.ts'
import { type BoxFlags, CliCommand, type Flags, serverOf } from './cli-command.ts'

type TopFlags = Flags<never, 'once'> & { readonly pane: PaneName; readonly every: string }

/** `signalbox top`: a live view of queues, locks, nodes, contention, workers and tasks. */
export function topCommand({ printer }: CommandContext): Command {
  const command = new CliCommand('top')
    .addOption(new Option('--pane <name>', 'the first pane').choices(paneNames).default('queues'))
    .option('--every <span>', 'the refresh interval', '1s')
    .option('--once', 'print one frame and exit')
    .note(
      'Keys: 1 queues, 2 locks, 3 nodes, 4 contention, 5 workers, 6 tasks, j/k move, / filter, p pause,',
      '? help, q or Esc quit.',
      'Capital letters change something, and ask first: P pause or resume a queue, R retry its dead jobs,',
      'E evict a holder, D drain a node, S stop a worker (P lets it be quiet), X cancel a task.',
    )
    .examples('top --url http://127.0.0.1:7420', 'top --pane locks --every 5s', 'top --once --pane nodes')
    .onBox(({ pane, every, once = false, json = false, ...flags }: TopFlags) => {
      const everyMs = spanOf('--every', every, { min: 100, max: 3_600_000 })
      const isLive = !once && !json
      if (isLive && !(process.stdin.isTTY && process.stdout.isTTY))
        throw invalidArgument('top needs a terminal. Use --once for one frame, or --json for one snapshot.')
      return async (box) => {
        const boxName = nameOfBox(command, flags)
        if (json) return void printer.json(await snapshotOf(box))
        if (once) return void (await printFrame(box, pane, boxName, printer))
        const { createStyle } = await import('../top/terminal.ts')
        const { showTop } = await import('../top/session.ts')
        await showTop({ box, pane, everyMs, style: createStyle(!process.env.NO_COLOR), boxName })
      }
    })
  return command
}

/** The server or store for the title, without user and password. */
function nameOfBox(command: Command, { url, namespace }: BoxFlags): string {
  const server = serverOf(command, { url })
  const name = server === undefined ? nameOfDatabase(resolveDatabase(command)) : new URL(server).origin
  return escapeText(namespace === undefined ? name : `${name} (${namespace})`)
}

async function snapshotOf(box: Box | RemoteBox): Promise<Record<string, unknown>> {
  const { panes } = await import('../top/panes.ts')
  const looks = await Promise.all(panes.map(async ({ name, look }) => [name, (await look(box)).raw] as const))
  return { at: Date.now(), ...Object.fromEntries(looks) }
}

async function printFrame(
  box: Box | RemoteBox,
  pane: PaneName,
  boxName: string,
  printer: Printer,
): Promise<void> {
  const { drawPlain } = await import('../top/frame.ts')
  const { paneOf } = await import('../top/panes.ts')
  const { firstState } = await import('../top/state.ts')
  const look = await paneOf(pane).look(box)
  const seenAt = new Date().toTimeString().slice(0, 8)
  const scene = { state: firstState(pane), look, boxName, seenAt, error: '' }
  // One write, because a reader may close the pipe after the first lines.
  const lines = drawPlain(scene, process.stdout.columns || 200)
  printer.page(`${lines.join('\n')}\n`)
}
