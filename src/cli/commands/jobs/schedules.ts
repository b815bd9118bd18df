import { Command, Option } from 'commander'
import { SignalboxError } from '../../../core/errors.ts'
import type { Schedule, ScheduleOptions, Schedules } from '../../../jobs/index.ts'
import { parsePayload, spanOf, spanText } from '../../config/value-kinds.ts'
import { type Cell, type Printer, printTable } from '../../print.ts'
import type { Stage } from '../../verbs.ts'
import { addJobsFlags, openJobs, type PlaceFlags, readAll } from '../place.ts'

/** `signalbox schedules list|set|pause|resume|run|remove`: jobs that run by the clock. */
export function schedulesCommand({ printer }: Stage): Command {
  return new Command('schedules')
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox schedules list\n  signalbox schedules set report --cron "0 9 * * 1-5" --time-zone Asia/Shanghai --kind report\n  signalbox schedules run report',
    )
    .addCommand(listCommand(printer))
    .addCommand(setCommand(printer))
    .addCommand(
      nameCommand(printer, 'pause', 'run no slot until it is resumed', async (schedules, name) => {
        const schedule = await schedules.pause(name)
        return { said: schedule, line: `paused ${name}` }
      }),
    )
    .addCommand(
      nameCommand(printer, 'resume', 'run it again from its next slot on', async (schedules, name) => {
        const schedule = await schedules.resume(name)
        return { said: schedule, line: `resumed ${name}: ${nextOf(schedule)}` }
      }),
    )
    .addCommand(
      nameCommand(printer, 'run', 'add its job now, out of turn', async (schedules, name) => {
        const added = await schedules.run(name)
        const line = added.duplicate ? `job ${added.id} is there already` : `added job ${added.id}`
        return { said: added, line }
      }),
    )
    .addCommand(
      nameCommand(printer, 'remove', 'remove it; jobs that it added stay', async (schedules, name) => {
        const removed = await schedules.remove(name)
        if (!removed) throw new SignalboxError('not_found', `There is no schedule "${name}".`)
        return { said: { removed }, line: `removed ${name}` }
      }),
    )
}

function listCommand(printer: Printer): Command {
  const command = new Command('ls')
    .alias('list')
    .description('list schedules by name, with their next and last runs')
    .addHelpText('after', '\nExamples:\n  signalbox schedules list\n  signalbox schedules list --json')
    .action(async ({ json, ...place }: PlaceFlags) => {
      await using jobs = await openJobs(command, place)
      const items = await readAll((cursor) => jobs.schedules.list({ limit: 500, cursor }))
      if (json) return printer.json({ items })
      if (items.length === 0) return printer.line('There are no schedules.')
      printTable(printer, ['NAME', 'WHEN', 'KIND', 'NEXT', 'LAST'], items.map(rowOf))
    })
  return addJobsFlags(command)
}

interface SetFlags extends PlaceFlags {
  readonly cron?: string
  readonly timeZone?: string
  readonly every?: string
  readonly kind: string
  readonly payload?: string
  readonly queue?: string
  readonly catchUp?: 'none' | 'one' | 'all'
}

function setCommand(printer: Printer): Command {
  const command = new Command('set')
    .description('create or replace a schedule')
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
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox schedules set report --cron "0 9 * * 1-5" --time-zone Asia/Shanghai --kind report\n  signalbox schedules set sweep --every 10m --kind sweep --payload \'{"depth":2}\'',
    )
    .action(async (name: string, flags: SetFlags) => {
      const { cron, timeZone, every, kind, payload, queue, catchUp, json, ...place } = flags
      const options = {
        ...{ cron, timeZone, everyMs: spanOf('--every', every), catchUp },
        job: { kind, queue, payload: parsePayload(payload) },
      }
      await using jobs = await openJobs(command, place, 'make')
      const schedule = await jobs.schedules.set(name, options as unknown as ScheduleOptions)
      if (json) printer.json(schedule)
      else printer.line(`set ${name}: ${nextOf(schedule)}`)
    })
  return addJobsFlags(command)
}

function nameCommand(
  printer: Printer,
  verb: string,
  description: string,
  act: (schedules: Schedules, name: string) => Promise<{ readonly said: unknown; readonly line: string }>,
): Command {
  const command = new Command(verb)
    .description(description)
    .argument('<name>', 'the name of the schedule, as list shows it')
    .addHelpText('after', `\nExamples:\n  signalbox schedules ${verb} report`)
    .action(async (name: string, { json, ...place }: PlaceFlags) => {
      await using jobs = await openJobs(command, place)
      const { said, line } = await act(jobs.schedules, name)
      if (json) printer.json(said)
      else printer.line(line)
    })
  return addJobsFlags(command)
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
