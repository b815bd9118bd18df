import { type Command, Option } from 'commander'
import { SignalboxError } from '../../../core/errors.ts'
import type { Schedule, ScheduleOptions, Schedules } from '../../../jobs/index.ts'
import { parsePayload, spanOf, spanText } from '../../config/value-kinds.ts'
import { type Cell, type Printer, printList } from '../../print.ts'
import type { CommandContext } from '../../verbs.ts'
import { type BoxFlags, CliCommand, type Flags, readAll } from '../cli-command.ts'

/** `signalbox schedules list|set|pause|resume|run|remove`: shows and changes schedules. */
export function schedulesCommand({ printer }: CommandContext): Command {
  return new CliCommand('schedules').group(
    listCommand(printer),
    setCommand(printer),
    nameCommand(printer, 'pause', 'run no slot until it is resumed', async (schedules, name) => {
      const schedule = await schedules.pause(name)
      return { answer: schedule, line: `paused ${name}` }
    }),
    nameCommand(printer, 'resume', 'run it again from its next slot on', async (schedules, name) => {
      const schedule = await schedules.resume(name)
      return { answer: schedule, line: `resumed ${name}: ${nextOf(schedule)}` }
    }),
    nameCommand(printer, 'run', 'add its job now, out of turn', async (schedules, name) => {
      const added = await schedules.run(name)
      const line = added.duplicate ? `job ${added.id} is there already` : `added job ${added.id}`
      return { answer: added, line }
    }),
    nameCommand(printer, 'remove', 'remove it; jobs that it added stay', async (schedules, name) => {
      const removed = await schedules.remove(name)
      if (!removed) throw new SignalboxError('not_found', `There is no schedule "${name}".`)
      return { answer: { removed }, line: `removed ${name}` }
    }),
  )
}

function listCommand(printer: Printer): CliCommand {
  return new CliCommand('ls', 'list schedules by name, with their next and last runs')
    .examples('schedules list', 'schedules list --json')
    .onJobs(({ json }: BoxFlags) => async (jobs) => {
      const items = await readAll((cursor) => jobs.schedules.list({ limit: 500, cursor }))
      if (json) return printer.json({ items })
      const heads = ['NAME', 'WHEN', 'KIND', 'NEXT', 'LAST']
      printList(printer, { items }, 'There are no schedules.', heads, rowOf)
    })
}

type SetFlags = Flags<'cron' | 'timeZone' | 'every' | 'payload' | 'queue'> & {
  readonly kind: string
  readonly catchUp?: 'none' | 'one' | 'all'
}

function setCommand(printer: Printer): CliCommand {
  return new CliCommand('set', 'create or replace a schedule')
    .argument('<name>', 'its name')
    .option(
      '--cron <line>',
      'minute, hour, day of the month, month, day of the week; or six, the second first',
    )
    .option('--time-zone <zone>', 'the time zone of --cron (default: UTC)')
    .option('--every <span>', 'a fixed interval instead of --cron, such as 30s or 1h')
    .requiredOption('--kind <kind>', 'the kind of the job that each run adds')
    .option('--payload <json>', 'its payload')
    .option('--queue <name>', 'its queue (default: default)')
    .addOption(
      new Option('--catch-up <what>', 'what becomes of slots that passed while no worker ran').choices([
        'none',
        'one',
        'all',
      ]),
    )
    .examples(
      'schedules set report --cron "0 9 * * 1-5" --time-zone Asia/Shanghai --kind report',
      'schedules set sweep --every 10m --kind sweep --payload \'{"depth":2}\'',
    )
    .onJobs((name: string, flags: SetFlags) => {
      const { cron, timeZone, every, kind, payload, queue, catchUp, json } = flags
      const options = {
        cron,
        timeZone,
        everyMs: spanOf('--every', every),
        catchUp,
        job: { kind, queue, payload: parsePayload(payload) },
      }
      return async (jobs) => {
        const schedule = await jobs.schedules.set(name, options as unknown as ScheduleOptions)
        printer.answer(json, schedule, `set ${name}: ${nextOf(schedule)}`)
      }
    }, 'make')
}

function nameCommand(
  printer: Printer,
  verb: string,
  description: string,
  act: (schedules: Schedules, name: string) => Promise<{ readonly answer: unknown; readonly line: string }>,
): CliCommand {
  return new CliCommand(verb, description)
    .argument('<name>', 'the name of the schedule, as list shows it')
    .examples(`schedules ${verb} report`)
    .onJobs((name: string, { json }: BoxFlags) => async (jobs) => {
      const { answer, line } = await act(jobs.schedules, name)
      printer.answer(json, answer, line)
    })
}

function rowOf(schedule: Schedule): readonly Cell[] {
  const { name, cron, timeZone, everyMs, job, lastFiredAt } = schedule
  const when = cron === null ? `every ${spanText(everyMs!)}` : `${cron} ${timeZone}`
  const last = lastFiredAt === null ? 'never' : new Date(lastFiredAt).toISOString()
  return [name, when, job.kind, nextOf(schedule).replace(/^next /, ''), last]
}

function nextOf({ paused, nextAt }: Schedule): string {
  if (paused) return 'paused'
  return nextAt === null ? 'never again' : `next ${new Date(nextAt).toISOString()}`
}
