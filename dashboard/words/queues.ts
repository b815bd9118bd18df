import { catalogue } from './catalogue.ts'

export const queuesWords = catalogue({
  lead: {
    en: 'Each line of work, what stands in it, and since when the oldest ready job waits.',
    zh: '各条队列的任务数量，以及最早就绪任务的等待时间。',
  },
  filter: { en: 'Filter by name', zh: '按名称筛选' },
  queue: { en: 'Queue', zh: '队列' },
  oldest: { en: 'Oldest ready', zh: '最早就绪' },
  limits: { en: 'Limits', zh: '限制' },
  noLimits: { en: 'none', zh: '无' },
  atOnce: { en: '{count} at once', zh: '并发 {count}' },
  perSpan: { en: '{count} per {span}', zh: '每 {span} {count} 个' },
  eachKey: { en: '{limit} per key', zh: '每个键 {limit}' },

  none: { en: 'No queues yet', zh: '还没有队列' },
  noneNext: {
    en: 'A queue is there as soon as a job is added to it.',
    zh: '向队列添加任务后，队列即会出现。',
  },
  noMatch: { en: 'No queue is called so', zh: '没有匹配的队列' },
  noMatchNext: { en: 'Change the filter.', zh: '请修改筛选条件。' },

  pause: { en: 'Pause', zh: '暂停' },
  resume: { en: 'Resume', zh: '恢复' },
  pauseSome: {
    en: { one: 'Pause {count} queue?', other: 'Pause {count} queues?' },
    zh: '暂停 {count} 个队列？',
  },
  resumeSome: {
    en: { one: 'Resume {count} queue?', other: 'Resume {count} queues?' },
    zh: '恢复 {count} 个队列？',
  },
  pauseMeans: {
    en: 'Nothing of it is handed out until it is resumed. What runs goes on.',
    zh: '恢复之前不再分发任务。正在运行的任务继续执行。',
  },
  resumeMeans: { en: 'Workers get its jobs again at once.', zh: '工作进程将立即重新领取任务。' },
  pausedSome: {
    en: { one: '{count} queue is paused', other: '{count} queues are paused' },
    zh: '已暂停 {count} 个队列',
  },
  resumedSome: {
    en: { one: '{count} queue goes on', other: '{count} queues go on' },
    zh: '已恢复 {count} 个队列',
  },
  selectFirst: { en: 'Select queues first', zh: '请先选择队列' },

  unknown: { en: 'Nothing is in this queue', zh: '此队列当前为空' },
  unknownNext: {
    en: 'No job waits, runs or is dead in it; it is not paused and has no limits. If the name is wrong, choose one from all queues.',
    zh: '没有等待、运行或失败的任务，未暂停，也没有限制。若名称有误，请从全部队列中选择。',
  },
  allQueues: { en: 'All queues', zh: '全部队列' },
  newest: { en: 'Newest jobs', zh: '最新任务' },
  allJobs: { en: 'All its jobs', zh: '全部任务' },
  noJobs: { en: 'No jobs', zh: '没有任务' },
  noneAmongNewest: { en: 'None among the newest of all jobs', zh: '最新的任务中没有此队列的任务' },
  noJobsNext: {
    en: 'Nothing was added to this queue, or all of it was pruned.',
    zh: '队列中没有任务，或已被清理。',
  },

  retryDead: { en: 'Retry dead jobs', zh: '重试失败任务' },
  retryDeadSome: {
    en: { one: 'Retry {count} dead job?', other: 'Retry {count} dead jobs?' },
    zh: '重试 {count} 个失败任务？',
  },
  retryDeadMeans: {
    en: 'The oldest 1,000 at most run again from their first attempt.',
    zh: '最早的至多 1,000 个任务将从第一次尝试重新运行。',
  },
  retriedSome: {
    en: { one: '{count} job runs again', other: '{count} jobs run again' },
    zh: '{count} 个任务重新运行',
  },

  setLimits: { en: 'Set limits', zh: '设置限制' },
  setLimitsOf: { en: 'Limits of {queue}', zh: '{queue} 的限制' },
  save: { en: 'Save', zh: '保存' },
  limitsMean: {
    en: 'They hold over all processes and servers, from the next claim on. An empty field does not limit; all empty lifts the limits.',
    zh: '限制对所有进程和服务器生效，从下一次领取开始。留空表示不限制；全部留空则取消限制。',
  },
  wholeQueue: { en: 'The whole queue', zh: '整个队列' },
  everyKey: { en: 'Each limit key', zh: '每个限制键' },
  concurrency: { en: 'Running at once', zh: '最大并发' },
  rateCount: { en: 'Starts', zh: '启动次数' },
  ratePer: { en: 'in (such as 1m)', zh: '时间窗口（如 1m）' },
  rateNeedsBoth: { en: 'A rate needs a count and a span.', zh: '速率需要次数和时间窗口。' },
  notACount: { en: '"{value}" is not a whole number of 1 or more.', zh: '“{value}”不是大于 0 的整数。' },
  limitsSet: { en: 'The limits are set.', zh: '限制已设置。' },
  limitsLifted: { en: 'The limits are lifted.', zh: '限制已取消。' },
})
