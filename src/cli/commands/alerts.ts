import type { Command } from 'commander'
import { type AlertSubscribeOptions, createAlerts } from '../../fleet/alerts/index.ts'
import { spanOf } from '../config/value-kinds.ts'
import { type Printer, printList, showSpan } from '../print.ts'
import type { Stage } from '../verbs.ts'
import { readChannel } from './monitor.ts'
import { openPlace, type PlaceFlags, Verb } from './place.ts'

/** `signalbox alerts ls|add|rm|test`: problems of the fleet, and the channels that are told. */
export function alertsCommand({ printer, endWith }: Stage): Command {
  return new Verb('alerts')
    .note('Servers look for alerts only while a channel wants them.')
    .group(listCommand(printer), addCommand(printer), removeCommand(printer), testCommand(printer, endWith))
}

function listCommand(printer: Printer): Verb {
  return new Verb('ls', 'list the alerts that fire, and who is alerted')
    .examples('alerts ls --json')
    .onBox(async (box, { json }: PlaceFlags) => {
      const alerts = createAlerts(box.monitor)
      const [firing, subscriptions] = await Promise.all([alerts.firing(), alerts.subscriptions()])
      if (json) return printer.json({ firing, subscriptions })
      const now = Date.now()
      printList(printer, { items: firing }, 'No alert fires.', ['ALERT', 'FOR', 'SAYS'], (alert) => [
        ...[alert.subject, showSpan(now - alert.since), alert.says],
      ])
      const none = 'No channel is alerted: signalbox alerts add NAME FILE'
      printList(printer, { items: subscriptions }, none, ['=ID', 'NAME', 'CHANNEL'], (one) => [
        ...[one.id, one.name, one.channel.shown],
      ])
    })
}

interface AddFlags extends PlaceFlags {
  readonly rule?: NonNullable<AlertSubscribeOptions['rule']>
  readonly window?: string
  readonly digest?: string
}

function addCommand(printer: Printer): Verb {
  const command = new Verb('add', 'alert a channel of problems')
    .argument('<name>', 'the name of the subscription')
    .argument('<file>', 'a JSON file with the channel; - reads standard input')
    .option('--rule <rule>', 'only alerts of this rule, such as dead-jobs')
    .option('--window <span>', 'how long the same alert is not repeated (default: 10m)')
    .option('--digest <span>', 'gather alerts for this long into one message (default: 30s)')
    .examples('alerts add on-call channel.json --rule dead-jobs')
    .action(async (name: string, file: string, { rule, window, digest, json, ...place }: AddFlags) => {
      const channel = readChannel(file)
      const windowMs = spanOf('--window', window)
      const digestMs = spanOf('--digest', digest)
      await using box = await openPlace(command, place)
      const added = await createAlerts(box.monitor).add({ name, channel, rule, windowMs, digestMs })
      if (json) printer.json(added)
      else printer.line(`${added.channel.shown} is alerted (subscription ${added.id})`)
    })
  return command.boxFlags()
}

function removeCommand(printer: Printer): Verb {
  return new Verb('rm', 'end a subscription to alerts')
    .argument('<id>', 'the subscription')
    .examples('alerts rm 01k9z3v8qe0m4t9wq3rb5c7xkd')
    .onBox(async (box, id: string, { json }: PlaceFlags) => {
      await createAlerts(box.monitor).remove(id)
      if (json) printer.json({ id, deleted: true })
      else printer.line(`subscription ${id} has ended`)
    })
}

function testCommand(printer: Printer, endWith: (exitCode: number) => void): Verb {
  return new Verb('test', 'send a test alert the way that all alerts go')
    .note('Exit codes: 0 a channel will get it, 1 no subscription takes it.')
    .examples('alerts test')
    .onBox(async (box, { json }: PlaceFlags) => {
      const answer = await createAlerts(box.monitor).test()
      if (answer.notified === 0) endWith(1)
      if (json) printer.json(answer)
      else if (answer.notified === 0)
        printer.problem('no subscription takes all alerts: signalbox alerts add')
      else printer.line(`${answer.notified} channel${answer.notified === 1 ? ' gets' : 's get'} a test alert`)
    })
}
