import { Command } from 'commander'
import { SignalboxError } from '../../../core/errors.ts'
import { whole } from '../../../core/options.ts'
import type { AddOptions } from '../../../jobs/index.ts'
import { spanOf } from '../../config/value-kinds.ts'
import type { Printer } from '../../print.ts'
import { addBoxFlags, openPlace, type PlaceFlags } from '../place.ts'

interface AddFlags extends PlaceFlags {
  readonly payload?: string
  readonly queue?: string
  readonly priority?: string
  readonly delay?: string
  readonly uniqueKey?: string
  readonly limitKey?: string
  readonly tag?: readonly string[]
  readonly after?: readonly string[]
}

/** `signalbox add KIND`: adds one job. */
export function addCommand(printer: Printer): Command {
  const command = new Command('add')
    .description('add a job')
    .argument('<kind>', 'what is to be done')
    .option('--payload <json>', 'what it is to be done with')
    .option('--queue <name>', 'the line it waits in (default: default)')
    .option('--priority <number>', 'higher goes first')
    .option('--delay <span>', 'not before so long from now, such as 10m')
    .option('--unique-key <key>', 'at most one live job of the queue has it')
    .option('--limit-key <key>', 'what the limits of the queue count it by')
    .option('--tag <word...>', 'words to find it by')
    .option('--after <id...>', 'wait until these jobs have completed')
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox add mail.welcome --payload \'{"to":"ada@example.org"}\'\n  signalbox add report --queue slow --delay 10m --tag nightly',
    )
    .action(async (kind: string, flags: AddFlags) => {
      const options = optionsOf(flags)
      const payload = flags.payload === undefined ? undefined : parsed(flags.payload)
      await using box = await openPlace(command, flags, 'make')
      const added = await box.jobs.add(kind, payload, options)
      if (flags.json) printer.json(added)
      else printer.line(added.duplicate ? `job ${added.id} is there already` : `added job ${added.id}`)
    })
  return addBoxFlags(command)
}

function optionsOf({ queue, priority, delay, uniqueKey, limitKey, tag, after }: AddFlags): AddOptions {
  return {
    queue,
    priority: priority === undefined ? undefined : priorityOf(priority),
    delayMs: spanOf('--delay', delay),
    uniqueKey,
    limitKey,
    tags: tag,
    after,
  }
}

function priorityOf(given: string): number {
  const value = /^-?\d{1,10}$/.test(given) ? Number(given) : given
  return whole('--priority', value, { min: -2_147_483_648, max: 2_147_483_647 })
}

function parsed(payload: string): unknown {
  try {
    return JSON.parse(payload) as unknown
  } catch (error) {
    throw new SignalboxError(
      'invalid_argument',
      `--payload is not JSON (${(error as Error).message}); text needs its own quotes: '"text"'.`,
    )
  }
}
