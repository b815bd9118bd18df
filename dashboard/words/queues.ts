import { catalogue } from './catalogue.ts'

export const queuesWords = catalogue({
  lead: {
    en: 'Jobs per queue, and how long the oldest has waited.',
    zh: '各条队列的作业数量，以及最早就绪作业的等待时间。',
  },
  filter: { en: 'Filter by name', zh: '按名称筛选' },
  queue: { en: 'Queue', zh: '队列' },
  oldest: { en: 'Oldest ready', zh: '最早就绪' },
  lastActive: { en: 'Last active', zh: '最近活动' },
  activeNow: { en: 'now', zh: '正在运行' },
  limits: { en: 'Limits', zh: '限制' },
  noLimits: { en: 'none', zh: '无' },
  atOnce: { en: '{count} at once', zh: '并发 {count}' },
  perSpan: { en: '{count} per {span}', zh: '每 {span} {count} 个' },
  eachKey: { en: 'each key: {limits}', zh: '每个键：{limits}' },
  limitComma: { en: ', ', zh: '，' },
  limitSemicolon: { en: '; ', zh: '；' },

  none: { en: 'No queues yet', zh: '还没有队列' },
  noneNext: {
    en: 'A queue appears when its first job is added.',
    zh: '向队列添加作业后，队列即会出现。',
  },
  noMatch: { en: 'No queue matches', zh: '没有匹配的队列' },
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
    en: 'No new jobs start until you resume. Running jobs continue.',
    zh: '恢复之前不再分发作业。正在运行的作业继续执行。',
  },
  resumeMeans: { en: 'Workers claim its jobs again at once.', zh: '工作进程将立即重新领取作业。' },
  pausedSome: {
    en: { one: '{count} queue paused', other: '{count} queues paused' },
    zh: '已暂停 {count} 个队列',
  },
  resumedSome: {
    en: { one: '{count} queue resumed', other: '{count} queues resumed' },
    zh: '已恢复 {count} 个队列',
  },
  selectFirst: { en: 'Select queues first', zh: '请先选择队列' },

  unknown: { en: 'This queue is empty', zh: '此队列当前为空' },
  unknownNext: {
    en: 'It has no waiting, running or dead jobs, no limits, and is not paused. If the name is wrong, choose one from all queues.',
    zh: '没有等待、运行中或死信的作业，未暂停，也没有限制。若名称有误，请从全部队列中选择。',
  },
  allQueues: { en: 'All queues', zh: '全部队列' },
  newest: { en: 'Newest jobs', zh: '最新作业' },
  allJobs: { en: 'All jobs of this queue', zh: '全部作业' },
  noJobs: { en: 'No jobs', zh: '没有作业' },
  noneAmongNewest: { en: 'None among the newest jobs', zh: '最新的作业中没有此队列的作业' },
  noJobsNext: {
    en: 'No job was added to this queue, or all were pruned.',
    zh: '队列中没有作业，或已被清理。',
  },

  retryDead: { en: 'Retry dead jobs', zh: '重试死信作业' },
  retryDeadSome: {
    en: { one: 'Retry {count} dead job?', other: 'Retry {count} dead jobs?' },
    zh: '重试 {count} 个死信作业？',
  },
  retryDeadMeans: {
    en: 'Up to 1,000 jobs, oldest first, run again from their first attempt.',
    zh: '最早的至多 1,000 个作业将从第一次尝试重新运行。',
  },
  retriedSome: {
    en: { one: '{count} job retried', other: '{count} jobs retried' },
    zh: '{count} 个作业重新运行',
  },

  setLimits: { en: 'Set limits', zh: '设置限制' },
  setLimitsOf: { en: 'Limits of {queue}', zh: '{queue} 的限制' },
  save: { en: 'Save', zh: '保存' },
  limitsMean: {
    en: 'Limits hold over all processes and servers, from the next claim on. Leave a field empty for no limit; leave all empty to remove the limits.',
    zh: '限制对所有进程和服务器生效，从下一次领取开始。留空表示不限制；全部留空则取消限制。',
  },
  wholeQueue: { en: 'Whole queue', zh: '整个队列' },
  everyKey: { en: 'Each limit key', zh: '每个限制键' },
  concurrency: { en: 'Maximum running', zh: '最大并发' },
  rateCount: { en: 'Maximum starts', zh: '启动次数' },
  ratePer: { en: 'per (such as 1m)', zh: '时间窗口（如 1m）' },
  rateNeedsBoth: { en: 'A rate needs both a count and a period.', zh: '速率需要次数和时间窗口。' },
  notACount: { en: '"{value}" is not a whole number of 1 or more.', zh: '“{value}”不是大于 0 的整数。' },
  limitsSet: { en: 'Limits saved.', zh: '限制已设置。' },
  limitsLifted: { en: 'Limits removed.', zh: '限制已取消。' },
})
