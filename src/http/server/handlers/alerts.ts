import { createAlerts } from '../../../fleet/alerts/index.ts'
import type { SomeHandlers } from '../call.ts'

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
