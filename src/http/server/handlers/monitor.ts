import { SignalboxError } from '../../../core/errors.ts'
import { createAlerts } from '../../../fleet/alerts/index.ts'
import type { ExplainOptions, Report } from '../../../monitor/index.ts'
import type { SomeHandlers } from '../call.ts'

/**
 * Handlers of the monitor. A body holds the options of the method. The monitor checks which form names the subjects.
 */
export const monitorHandlers: SomeHandlers = {
  reportChanges: async ({ body, space }) => ({ body: await space.monitor.report(body as Report) }),
  explainSubject: async ({ query, space }) => ({
    body: await space.monitor.explain(query as ExplainOptions),
  }),
  listDecisions: async ({ query, space }) => ({ body: await space.monitor.decisions(query) }),
  listNotifications: async ({ query, space }) => ({ body: await space.monitor.notifications(query) }),
  replayNotification: async ({ params, space }) => ({ body: await space.monitor.replay(params.id) }),
  listSubjects: async ({ query, space }) => ({ body: await space.monitor.subjects(query) }),

  subscribe: async ({ body, space }) => ({ body: await space.monitor.subscribe(body) }),
  // Subscriptions are few, and every report reads all of them, so the list is one page.
  listSubscriptions: async ({ space }) => ({
    body: { items: await space.monitor.subscriptions(), cursor: null },
  }),
  async unsubscribe({ params, space }) {
    if (await space.monitor.unsubscribe(params.id)) return { body: { deleted: true } }
    throw noSuch('subscription', params.id)
  },
  createSilence: async ({ body, space }) => ({ body: await space.monitor.silence(body) }),
  listSilences: async ({ space }) => ({ body: { items: await space.monitor.silences(), cursor: null } }),
  async endSilence({ params, space }) {
    if (await space.monitor.unsilence(params.id)) return { body: { deleted: true } }
    throw noSuch('silence', params.id)
  },
  testChannel: async ({ body, space }) => ({ body: await space.monitor.test(body.channel) }),
}

function noSuch(kind: string, id: string): SignalboxError {
  return new SignalboxError('not_found', `There is no ${kind} "${id}".`, { details: { id } })
}

export const alertHandlers: SomeHandlers = {
  async listAlerts({ space }) {
    const alerts = createAlerts(space.monitor)
    const [firing, subscriptions] = await Promise.all([alerts.firing(), alerts.subscriptions()])
    return { body: { firing, subscriptions } }
  },
  addAlerts: async ({ body, space }) => ({ body: await createAlerts(space.monitor).add(body) }),
  testAlerts: async ({ space }) => ({ body: await createAlerts(space.monitor).test() }),
  async removeAlerts({ params, space }) {
    await createAlerts(space.monitor).remove(params.id)
    return { body: { deleted: true } }
  },
}
