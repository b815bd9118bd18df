import type { Command } from 'commander'
import type { Duration } from '../../../core/duration.ts'
import { invalidArgument } from '../../../core/errors.ts'
import { showCount } from '../../../core/job-words.ts'
import { whole } from '../../../core/options.ts'
import type { Box, RemoteBox } from '../../../index.ts'
import type { LimitOptions, QueueLimits, QueueStats } from '../../../jobs/index.ts'
import { nearestTo } from '../../config/problems.ts'
import { numberOr } from '../../config/value-kinds.ts'
import { type Printer, printList, showSpan } from '../../print.ts'
import type { CommandContext } from '../../verbs.ts'
import { type BoxFlags, CliCommand, type Flags } from '../cli-command.ts'

/** `signalbox queues ls|pause|resume|limit`: shows, pauses, resumes and limits queues. */
export function queuesCommand({ printer }: CommandContext): Command {
  return new CliCommand('queues').group(
    listCommand(printer),
    switchCommand(
      printer,
      'pause',
      'start no new jobs of a queue until it is resumed; running jobs continue',
    ),
    switchCommand(printer, 'resume', 'start jobs of a queue again'),
    limitCommand(printer),
  )
}

function listCommand(printer: Printer): CliCommand {
  return new CliCommand('ls', 'list queues with the number of jobs by state')
    .examples('queues ls', 'queues ls --json')
    .onBox(({ json }: BoxFlags) => async (box) => {
      const items = await box.jobs.stats()
      if (json) return printer.json({ items })
      const heads = ['QUEUE', 'READY', 'SCHEDULED', 'WAITING', 'RUNNING', 'DEAD', 'OLDEST', 'STATE']
      const none = 'No queue has open jobs. Add one with `signalbox add`.'
      printList(printer, { items }, none, heads, rowOf)
    })
}

function rowOf(line: QueueStats): readonly (string | number | null)[] {
  const { queue, oldestReadyAt, paused, limits } = line
  const counts = [line.ready, line.scheduled, line.waiting, line.running, line.dead].map((count) => {
    const shown = showCount(line, count)
    return shown.startsWith('~') ? shown : count
  })
  const oldest = oldestReadyAt === null ? null : showSpan(Date.now() - oldestReadyAt)
  const words = [...(paused ? ['paused'] : []), ...(limits === null ? [] : [showLimits(limits)])]
  return [queue, ...counts, oldest, words.join(', ')]
}

function showLimits({ perKey, ...own }: QueueLimits): string {
  const show = ({ concurrency, rate }: Omit<QueueLimits, 'perKey'>) => [
    ...(concurrency === null ? [] : [`${concurrency} at once`]),
    ...(rate === null ? [] : [`${rate.count} per ${showSpan(rate.perMs)}`]),
  ]
  return [...show(own), ...(perKey === null ? [] : show(perKey).map((word) => `${word} per key`))].join(', ')
}

function switchCommand(printer: Printer, name: 'pause' | 'resume', about: string): CliCommand {
  const paused = name === 'pause'
  return new CliCommand(name, about)
    .argument('<queue>', 'its name')
    .examples(`queues ${name} mail`)
    .onBox(
      (queue: string, { json }: BoxFlags) =>
        async (box) => {
          await box.jobs[name](queue)
          const usage = await usageOf(box, queue)
          const line = `${paused ? 'paused' : 'resumed'} ${queue}${showUsage(usage)}`
          printer.answer(json, { queue, paused, ...usage }, line)
        },
      paused ? 'make' : 'look',
    )
}

interface Usage {
  readonly isUsed: boolean
  readonly nearest?: string
}

/** Whether the queue has or had jobs. If not, its name may be misspelt: also returns the nearest name of a queue. */
async function usageOf(box: Box | RemoteBox, queue: string): Promise<Usage> {
  const { items } = await box.jobs.list({ queue, limit: 1 })
  if (items.length > 0) return { isUsed: true }
  const others = (await box.jobs.stats()).map((line) => line.queue).filter((name) => name !== queue)
  const nearest = nearestTo(queue, others)
  return { isUsed: false, ...(nearest && { nearest }) }
}

function showUsage({ isUsed, nearest }: Usage): string {
  if (isUsed) return ''
  return ` (no job has used this queue yet${nearest === undefined ? '' : `; did you mean ${nearest}?`})`
}

type LimitFlags = Flags<'concurrency' | 'rate' | 'perKeyConcurrency' | 'perKeyRate', 'none'>

function limitCommand(printer: Printer): CliCommand {
  return new CliCommand('limit')
    .description('limit how many jobs of a queue run at once and start within a time, over all processes')
    .argument('<queue>', 'its name')
    .option('--concurrency <count>', 'the most running jobs')
    .option('--rate <count/span>', 'the most starts within a time, such as 100/1m')
    .option('--per-key-concurrency <count>', 'the most running jobs of each limit key')
    .option('--per-key-rate <count/span>', 'the most starts within a time of each limit key')
    .option('--none', 'remove the limits')
    .note('The command replaces all limits of the queue: a limit that is not given is removed.')
    .examples(
      'queues limit mail --concurrency 20',
      'queues limit mail --per-key-rate 100/1m',
      'queues limit mail --none',
    )
    .onBox((queue: string, flags: LimitFlags) => {
      const given = limitsOf(flags)
      return async (box) => {
        const limits = await box.jobs.setLimits(queue, given)
        const usage = await usageOf(box, queue)
        const line = limits === null ? `${queue} has no limits` : `${queue}: ${showLimits(limits)}`
        printer.answer(flags.json, { queue, limits, ...usage }, line + showUsage(usage))
      }
    }, 'make')
}

function limitsOf({
  concurrency,
  rate,
  perKeyConcurrency,
  perKeyRate,
  none,
}: LimitFlags): LimitOptions | null {
  const all = [concurrency, rate, perKeyConcurrency, perKeyRate]
  if (all.every((flag) => flag === undefined) === !none)
    throw invalidArgument(
      'queues limit takes limits (--concurrency, --rate, --per-key-concurrency, --per-key-rate) or --none.',
    )
  if (none) return null
  const perKey = {
    ...(perKeyConcurrency === undefined
      ? {}
      : { concurrency: count('--per-key-concurrency', perKeyConcurrency) }),
    ...(perKeyRate === undefined ? {} : { rate: rateOf('--per-key-rate', perKeyRate) }),
  }
  return {
    ...(concurrency === undefined ? {} : { concurrency: count('--concurrency', concurrency) }),
    ...(rate === undefined ? {} : { rate: rateOf('--rate', rate) }),
    ...(Object.keys(perKey).length === 0 ? {} : { perKey }),
  }
}

function count(flag: string, value: string): number {
  return whole(flag, numberOr(value), { min: 1 })
}

function rateOf(flag: string, value: string): { readonly count: number; readonly perMs: Duration } {
  const [starts, span, ...more] = value.split('/')
  if (span === undefined || span === '' || more.length > 0)
    throw invalidArgument(`${flag} must be a count and a span, such as 100/1m.`)
  return { count: count(flag, starts!), perMs: span as Duration }
}
