import type { Campaign } from './campaign.ts'
import { copyKilling } from './copykilling.ts'
import { demoPlaying } from './demoplaying.ts'
import { dispatchKilling } from './dispatchkilling.ts'
import { jobsBacklog } from './jobsbacklog.ts'
import { jobsCrashes } from './jobscrashes.ts'
import { jobsWalk } from './jobswalk.ts'
import { locksHistories, locksWalk } from './lockscampaigns.ts'
import { monitorTelling } from './monitortelling.ts'
import { mutationCampaign } from './mutations.ts'
import { onceGuarding } from './onceguarding.ts'
import { serverPipelining } from './server-pipelining.ts'
import { serverDribblers } from './serverdribblers.ts'
import { serverFuzz } from './serverfuzz.ts'
import { serverLanguages } from './serverlanguages.ts'
import { workqueueMutations } from './workqueuemutations.ts'
import { workqueueWalk } from './workqueuewalk.ts'

/** Every campaign, in the order a full soak runs them. Rooms add theirs here. */
export const campaigns: readonly Campaign[] = [
  workqueueWalk,
  mutationCampaign({
    room: 'workqueue',
    paths: ['test/workqueue', 'src/work-queue'],
    mutations: workqueueMutations,
  }),
  jobsWalk,
  ...jobsCrashes,
  jobsBacklog,
  serverLanguages,
  serverDribblers,
  serverFuzz,
  serverPipelining,
  locksWalk,
  locksHistories,
  onceGuarding,
  monitorTelling,
  dispatchKilling,
  copyKilling,
  demoPlaying,
]
